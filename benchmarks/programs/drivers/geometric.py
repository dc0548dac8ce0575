"""Run torch_geometric: convolutions on graphs, batches, pooling; a network that trains."""

import torch
from figures import array, check, fill, integers, show
from torch_geometric.data import Batch, Data
from torch_geometric.nn import (
    GATConv,
    GCNConv,
    GINConv,
    GraphConv,
    SAGEConv,
    TopKPooling,
    TransformerConv,
    global_max_pool,
    global_mean_pool,
)  # fmt: skip
from torch_geometric.utils import add_self_loops, degree, softmax, to_dense_adj

x, edges = array(12, 8), integers(12, 2, 40)
for name, layer in {
    "gcn": GCNConv(8, 6), "gat": GATConv(8, 6, heads=2), "sage": SAGEConv(8, 6), "transformer": TransformerConv(8, 6, heads=2),
    "gin": GINConv(torch.nn.Sequential(torch.nn.Linear(8, 6), torch.nn.ReLU())), "graph": GraphConv(8, 6),
}.items():  # fmt: skip
    check(name, layer, x, edges)
graphs = Batch.from_data_list([Data(x=array(n, 8, seed=n), edge_index=integers(n, 2, 9, seed=n)) for n in (3, 5, 4)])
show("batch", global_mean_pool(graphs.x, graphs.batch), global_max_pool(graphs.x, graphs.batch), graphs.batch.float())
pooled = fill(TopKPooling(8, ratio=0.5))(x, edges)
show("pooling", pooled[0], pooled[1].float())
show("helpers", degree(edges[0], 12), to_dense_adj(edges)[0], softmax(array(40), edges[1], num_nodes=12))
show("loops", add_self_loops(edges)[0].float())


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = GCNConv(8, 16), GCNConv(16, 3)

    def forward(self, x, edges):
        return self.two(self.one(x, edges).relu(), edges)


net, labels = fill(Net()), integers(3, 12)
optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
for step in range(30):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(net(x, edges), labels)
    loss.backward()
    optimizer.step()
    if step % 10 == 9:
        show(f"step {step}", loss)
