"""Run pytorch-ignite and accelerate: training loops, metrics, saving of the state."""

import torch
from accelerate import Accelerator
from figures import array, fill, integers, show
from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer
from ignite.handlers import Checkpoint, DiskSaver
from ignite.metrics import Accuracy, Loss

rows = torch.utils.data.TensorDataset(array(64, 8), integers(3, 64))


def parts():
    net = fill(torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3)))
    return net, torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9), torch.utils.data.DataLoader(rows, batch_size=16)


net, optimizer, loader = parts()
loss = torch.nn.CrossEntropyLoss()
trainer = create_supervised_trainer(net, optimizer, loss)
evaluator = create_supervised_evaluator(net, metrics={"accuracy": Accuracy(), "loss": Loss(loss)})
trainer.add_event_handler(Events.EPOCH_COMPLETED, lambda engine: show(f"ignite {engine.state.epoch}", engine.state.output))
saver = Checkpoint({"model": net, "optimizer": optimizer}, DiskSaver("ignite", create_dir=True), n_saved=1)
trainer.add_event_handler(Events.COMPLETED, saver)
trainer.run(loader, max_epochs=3)
evaluator.run(loader)
show("ignite metrics", evaluator.state.metrics["accuracy"], evaluator.state.metrics["loss"])
show("ignite kept", torch.load(saver.last_checkpoint)["model"]["0.weight"])

accelerator = Accelerator(cpu=True)
net, optimizer, loader = accelerator.prepare(*parts())
for epoch in range(3):
    for x, y in loader:
        optimizer.zero_grad()
        value = loss(net(x), y)
        accelerator.backward(value)
        accelerator.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
    show(f"accelerate {epoch}", value)
accelerator.save_state("accelerate")
before = [p.detach().clone() for p in net.parameters()]
with torch.no_grad():
    for p in net.parameters():
        p.zero_()
accelerator.load_state("accelerate")
show("accelerate kept", *[(a - b).abs().max() for a, b in zip(before, net.parameters(), strict=True)])
