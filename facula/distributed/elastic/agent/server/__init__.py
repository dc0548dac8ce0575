"""Define the part of a launcher that manages the processes of one machine."""

from .api import RunResult, WorkerGroup, WorkerSpec, WorkerState
from .local_elastic_agent import LocalElasticAgent

__all__ = ["LocalElasticAgent", "RunResult", "WorkerGroup", "WorkerSpec", "WorkerState"]
