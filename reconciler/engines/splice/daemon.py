"""The process that Spark forks its Python workers from, with all that splicing imports loaded once instead of in each.

Spark starts it by name, as it would `pyspark.daemon`, where the session's settings say so.
"""

from __future__ import annotations

import gc

from pyspark.daemon import manager

import reconciler.engines.splice.partition  # noqa: F401 - the workers find it loaded

if __name__ == "__main__":
    gc.freeze()  # a worker collects garbage after every task; what is loaded here is none, and stays shared
    manager()
