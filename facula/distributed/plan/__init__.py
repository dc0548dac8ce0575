"""Predict what a training step costs on a cluster that is not here, from one process's own step and a model of the
collectives.

    python -m facula.distributed.plan model.py --ranks 8,64,1024 --strategy ddp --bandwidth 25GB

`cluster.py` describes a cluster, `collectives.py` computes how long its collectives take, `trace.py` measures a step of
one process, and `step.py` combines both. `measure.py` runs ranks on this machine, to fit a cluster (`fit.py`) and to
measure the error of a prediction.
"""

from .cluster import Cluster, Link
from .collectives import cost
from .step import Prediction, predict
from .trace import Trace, load_program, trace_step

__all__ = ["Cluster", "Link", "Prediction", "Trace", "cost", "load_program", "predict", "trace_step"]
