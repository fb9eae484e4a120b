"""Observe, propose, execute: the one composition that every shell shares.

Level-triggered: each run observes again and holds no state between runs. The shells turn arguments and resources into
`Request`s and `Proposal`s into text, exit codes and status; every decision is made here or below.
"""

from reconciler.pipeline.execution import Execution, execute, failure, require_same
from reconciler.pipeline.proposals import (
    Approval,
    Proposal,
    Request,
    judged,
    make_plan,
    observe,
    propose,
    propose_all,
    propose_offline,
)
from reconciler.pipeline.undoing import propose_restore, propose_undo

__all__ = [
    "Approval",
    "Execution",
    "Proposal",
    "Request",
    "execute",
    "failure",
    "judged",
    "make_plan",
    "observe",
    "propose",
    "propose_all",
    "propose_offline",
    "propose_restore",
    "propose_undo",
    "require_same",
]
