"""The order of the test files: long ones first, so that no worker is left with one when the other is done."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
SECONDS: Mapping[str, int] = {
    "data/test_connect.py": 190,
    "operator/test_jobs.py": 160,
    "operator/test_availability.py": 140,
    "data/test_concurrency.py": 130,
    "crash/operator/test_operator_kill.py": 120,
    "crash/test_faults.py": 120,
    "crash/test_ingest.py": 120,
    "crash/test_kill.py": 120,
    "data/test_views_law.py": 120,
    "data/test_rewrites.py": 100,
    "data/test_type_change_crashes.py": 100,
    "operator/test_connect.py": 100,
    "data/test_crashes.py": 90,
    "data/test_restore.py": 90,
    "data/test_backfill.py": 80,
    "data/test_maintenance.py": 80,
    "data/test_splicing.py": 80,
    "data/test_type_changes.py": 80,
    "data/test_apply.py": 70,
    "data/test_views.py": 70,
    "data/test_runtimes.py": 60,
    "operator/test_executors.py": 60,
    "operator/test_survival.py": 60,
    "crash/test_oracles.py": 50,
    "operator/admission/test_admission.py": 50,
    "operator/test_job_objects.py": 50,
    "operator/test_reconcile.py": 50,
    "operator/test_spark_commits.py": 50,
    "data/test_constraints.py": 40,
    "engines/splice/test_splice_spark.py": 40,
    "operator/test_campaign.py": 40,
    "operator/test_campaign_rules.py": 40,
    "operator/test_plugin.py": 40,
    "test_bench.py": 40,
    "laws/test_laws.py": 30,
    "cli/test_terminal.py": 20,
    "data/test_required.py": 20,
    "laws/test_planning_laws.py": 20,
    "operator/test_chart.py": 20,
    "operator/test_crds.py": 20,
    "operator/test_namespaced.py": 20,
    "spark/test_conformance.py": 20,
    "sql/test_fuzz.py": 20,
    "sql/test_spark_semantics.py": 20,
    "test_examples.py": 20,
    "cli/test_must_show_lifecycle.py": 10,
    "cli/test_routes.py": 10,
    "data/test_rewrite_apply.py": 10,
    "data/test_views_program.py": 10,
    "engines/test_java.py": 10,
    "operator/test_must_show.py": 10,
    "spark/test_proofs_with_deletes.py": 10,
    "spark/test_spark_executor.py": 10,
}
"""About how long a file takes beside another one on two cores (`--durations`); what is not named is short."""


def long_files_first(items: list[pytest.Item]) -> None:
    """Sort tests by the length of their file, within which they keep their order."""
    items.sort(key=lambda item: -SECONDS.get(item.path.relative_to(TESTS).as_posix(), 0))
