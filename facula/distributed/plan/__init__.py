"""What a training step will cost on a cluster that is not here, from one process's own step and a model of the collectives.

    python -m facula.distributed.plan model.py --ranks 8,64,1024 --strategy ddp --bandwidth 25GB

`cluster.py` says what a cluster is, `collectives.py` how long its collectives take, `trace.py` looks at a step of one
process, `step.py` puts the two together, and `measure.py` runs ranks on this machine, to fit a cluster (`fit.py`) and to see
how wrong a prediction is.
"""

from .cluster import Cluster, Link
from .collectives import cost
from .step import Prediction, predict
from .trace import Trace, load_program, trace_step

__all__ = ["Cluster", "Link", "Prediction", "Trace", "cost", "load_program", "predict", "trace_step"]
