"""Run short training programs of other packages in two processes; each prints numbers to compare with PyTorch's.

    python -m facula benchmarks/others/two_processes.py lightning       # also fabric, dask, which start the processes
    python -m facula -m torch.distributed.run --nproc-per-node 2 benchmarks/others/two_processes.py accelerate

With PyTorch, the same without `-m facula`. The packages are to be installed without their dependency on torch.
"""

import os
import socket
import sys

import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset


def data():
    """Return (loader of 8 batches, weights of a Linear(8, 1)), from NumPy."""
    r = np.random.RandomState(0)
    x, y, w = (torch.from_numpy(r.randn(*shape).astype("f")) for shape in ((64, 8), (64, 1), (1, 8)))
    return DataLoader(TensorDataset(x, y), batch_size=8), w


def network(weight):
    """Return a Linear with these weights."""
    made = torch.nn.Linear(8, 1)
    with torch.no_grad():
        made.weight.copy_(weight)
        made.bias.zero_()
    return made


def loss_of(model, x, y):
    """Return the mean of the squares."""
    return ((model(x) - y) ** 2).mean()


def accelerate():
    """Print the losses of all processes after each of two epochs."""
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    loader, weight = data()
    model = network(weight)
    model, optimizer, loader = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), loader)
    for _ in range(2):
        for x, y in loader:
            loss = loss_of(model, x, y)
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
        everybody = accelerator.gather(loss.detach().reshape(1)).tolist()
        accelerator.print(accelerator.num_processes, [round(v, 5) for v in everybody])


def _with_fabric(fabric):
    loader, weight = data()
    model = network(weight)
    model, optimizer = fabric.setup(model, torch.optim.Adam(model.parameters(), lr=0.05))
    for x, y in fabric.setup_dataloaders(loader):
        loss = loss_of(model, x, y)
        fabric.backward(loss)
        fabric.clip_gradients(model, optimizer, max_norm=1.0)
        optimizer.step()
        optimizer.zero_grad()
    everybody = [round(v, 5) for v in fabric.all_gather(loss.detach()).tolist()]
    if fabric.is_global_zero:
        print(fabric.world_size, everybody)


def fabric():
    """Print the last losses of both processes, started by spawning."""
    from lightning import Fabric

    Fabric(accelerator="cpu", devices=2, strategy="ddp_spawn").launch(_with_fabric)


def lightning():
    """Print the mean loss of each of three epochs."""
    from lightning.pytorch import LightningModule, Trainer

    loader, weight = data()

    class Module(LightningModule):
        def __init__(self):
            super().__init__()
            self.net = network(weight)

        def training_step(self, batch, _):
            loss = loss_of(self.net, *batch)
            self.log("loss", loss, sync_dist=True, on_epoch=True, on_step=False)
            return loss

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), lr=0.05)

        def on_train_epoch_end(self):
            if self.global_rank == 0:
                print(self.trainer.world_size, round(float(self.trainer.callback_metrics["loss"]), 6))

    quiet = dict.fromkeys(("logger", "enable_progress_bar", "enable_model_summary", "enable_checkpointing"), False)
    Trainer(accelerator="cpu", devices=2, strategy="ddp", max_epochs=3, **quiet).fit(Module(), loader)


def _gradients(rank, port):
    os.environ.update(RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.distributed.init_process_group("gloo")
    loader, weight = data()
    model = torch.nn.parallel.DistributedDataParallel(network(weight))
    loss_of(model, *list(loader)[rank]).backward()
    torch.distributed.destroy_process_group()
    return [round(v, 5) for v in model.module.weight.grad.flatten().tolist()]


def dask():
    """Print the gradients that two workers of a cluster have in common."""
    from distributed import Client, LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        with socket.create_server(("127.0.0.1", 0)) as s:
            port = s.getsockname()[1]
        workers = list(client.scheduler_info()["workers"])
        print(client.gather([client.submit(_gradients, i, port, workers=[w], pure=False) for i, w in enumerate(workers)]))


if __name__ == "__main__":
    torch.set_num_threads(1)
    {"accelerate": accelerate, "dask": dask, "fabric": fabric, "lightning": lightning}[sys.argv[1]]()
