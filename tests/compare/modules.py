"""Modules and losses with random arguments, two steps of training from the same seeds on both sides.

    python tests/compare/modules.py COUNT RESULTS.json                  # PyTorch
    python -m facula tests/compare/modules.py COUNT RESULTS.json        # Facula

Compared are the outputs of both steps, the gradients of the inputs, and the module's state afterwards.
"""

import json
import random
import sys
import warnings

OPTIMIZERS = [
    "SGD(lr=.1,momentum=.9,nesterov=True)", "SGD(lr=.1,weight_decay=.1)", "Adam(lr=.1,amsgrad=True)", "AdamW(lr=.1)", "RMSprop(lr=.1,centered=True,momentum=.5)",
    "Adagrad(lr=.1,lr_decay=.1)", "Adadelta()", "Adamax(lr=.1)", "NAdam(lr=.1)", "RAdam(lr=.1)", "ASGD(lr=.1)", "Rprop(lr=.1)",
]  # fmt: skip
TOLERANCE = {"float32": 2e-4, "float64": 1e-6, "bfloat16": 6e-2}
SHOWN = 80  # elements


def cases(count: int) -> list[tuple[str, str, str, str]]:
    """Module, inputs, optimizer and dtype of each case, as text."""
    draw = random.Random(7)
    return [(*one(draw), draw.choice(OPTIMIZERS), draw.choice(["float32", "float32", "float64", "bfloat16"])) for _ in range(count)]


def one(draw) -> tuple[str, str]:
    C = draw.choice
    N, c, h, w, l = C([1, 2, 3]), C([1, 2, 4, 6]), C([3, 5, 8]), C([4, 7, 8]), C([4, 9])
    kk, st, pd, dl, b = C([1, 2, 3]), C([1, 2]), C([0, 1]), C([1, 1, 2]), C([True, False])
    g = C([1, 1, 2]) if c % 2 == 0 else 1
    img, seq = f"x({N},{c},{h},{w})", f"x({N},{c},{l})"
    table = [
        (f"nn.Conv2d({c},{C([2,4])},{kk},{st},{pd},{dl},{g},{b},{C(['zeros','reflect','replicate','circular'])!r})", img),
        (f"nn.Conv1d({c},{C([2,4])},{kk},{st},{pd},{dl},{g},{b})", seq),
        (f"nn.Conv3d({c},2,2,padding={pd},bias={b})", f"x({N},{c},4,5,4)"),
        (f"nn.ConvTranspose2d({c},{C([2,4])},{kk},{st},0,{C([0,st-1])},{g},{b},{dl})", img),
        (f"nn.ConvTranspose1d({c},2,{kk},{st},bias={b})", seq),
        (f"nn.MaxPool2d({C([2,3])},{st},{pd},{dl},ceil_mode={b})", img),
        (f"nn.AvgPool2d({C([2,3])},{st},{pd},{b},{C([True,False])},{C([None,3])})", img),
        (f"nn.LPPool2d({C([1,2,1.5])},2,{st})", img),
        (f"nn.AdaptiveAvgPool2d(({C([1,2,3])},{C([1,2,None])}))", img),
        (f"nn.AdaptiveMaxPool2d({C([1,2,3])})", img),
        (f"nn.FractionalMaxPool2d(2,output_size=({2},{2}))", img),
        (f"nn.AvgPool1d({C([2,3])},{st},{pd},{b})", seq),
        (f"nn.BatchNorm2d({c},momentum={C([.1,None,.5])},affine={b},track_running_stats={C([True,False])})", f"x({N+1},{c},{h},{w})"),
        (f"nn.BatchNorm1d({c},affine={b})", f"x({N+2},{c})"),
        (f"nn.GroupNorm({g},{c},affine={b})", img),
        (f"nn.InstanceNorm2d({c},affine={b},track_running_stats={C([True,False])})", img),
        (f"nn.LayerNorm([{w}],elementwise_affine={b},bias={C([True,False])})", img),
        (f"nn.RMSNorm({w})", img),
        (f"nn.LocalResponseNorm({C([1,2,3])})", img),
        (f"nn.LSTM({c},3,{C([1,2])},bias={b},batch_first={C([True,False])},dropout=0.,bidirectional={C([True,False])},proj_size={C([0,0,2])})", f"x({N},{l},{c})"),
        (f"nn.GRU({c},3,{C([1,2])},bias={b},batch_first={C([True,False])},bidirectional={C([True,False])})", f"x({N},{l},{c})"),
        (f"nn.RNN({c},3,{C([1,2])},{C(['tanh','relu'])!r},{b},bidirectional={C([True,False])})", f"x({N},{l},{c})"),
        (f"nn.LSTMCell({c},3,{b})", f"x({N},{c})"),
        (f"nn.GRUCell({c},3,{b})", f"x({N},{c})"),
        (f"nn.Linear({w},{C([1,5])},{b})", img),
        (f"nn.Bilinear({c},{c},3,{b})", f"x({N},{c}),x({N},{c})"),
        (f"nn.Embedding(10,4,padding_idx={C([None,0,-1])},max_norm={C([None,1.])},norm_type={C([2.,1.])},scale_grad_by_freq={b})", f"i(10,{N},{l})"),
        (f"nn.EmbeddingBag(10,4,mode={C(['sum','mean','max'])!r},padding_idx={C([None,0])},include_last_offset=False)", f"i(10,{N},{l})"),
        (f"nn.MultiheadAttention(4,{C([1,2])},bias={b},add_bias_kv={C([True,False])},add_zero_attn={C([True,False])},batch_first={C([True,False])})", f"x({N},{l},4),x({N},{l},4),x({N},{l},4)"),
        (f"nn.TransformerEncoderLayer(4,2,8,0.,{C(['relu','gelu'])!r},batch_first={b},norm_first={C([True,False])})", f"x({N},{l},4)"),
        (f"nn.TransformerDecoderLayer(4,2,8,0.,batch_first={b})", f"x({N},{l},4),x({N},{l},4)"),
        (f"nn.Upsample(scale_factor={C([2,1.5,.5])},mode={C(['nearest','bilinear','bicubic','area','nearest-exact'])!r})", img),
        (f"nn.Upsample(size=({C([3,9])},5),mode={C(['bilinear','bicubic'])!r},align_corners={b})", img),
        ("nn.PixelShuffle(2)", f"x({N},4,{h},{w})"),
        (f"nn.Fold(({4},{5}),2,padding={pd})", f"x({N},{c*4},{12 if pd == 0 else 30})"),
        (f"nn.Unfold({C([1,2])},{dl},{pd},{st})", img),
        (f"nn.ReflectionPad2d({C([1,2])})", img),
        ("nn.ZeroPad2d((1,-1,0,2))", img),
        (f"nn.CircularPad1d({C([1,2])})", seq),
        (f"nn.{C(['ReLU6','Hardtanh','ELU','CELU','SELU','GELU','Hardswish','Mish','SiLU','Softplus','Softshrink','Hardshrink','Tanhshrink','LogSigmoid','Softsign','GLU','Hardsigmoid','LeakyReLU'])}()", f"x({N},4,{w})"),
        (f"nn.PReLU({C([1,c])},{C([.25,-1.])})", img),
        (f"nn.Softmax({C([0,1,-1])})", img),
        (f"nn.Dropout({C([.2,.5])})", img),
        (f"nn.Dropout2d({C([.2,.5])})", img),
        ("nn.AlphaDropout(.3)", img),
        ("nn.RReLU()", img),
        ("nn.Softmin(-1)", img),
        (f"nn.CrossEntropyLoss(reduction={C(['mean','sum','none'])!r},label_smoothing={C([0.,.1])},ignore_index={C([-100,1])})", f"x({N+1},5),i(5,{N+1})"),
        (f"nn.CrossEntropyLoss(weight=torch.arange(1.,6),label_smoothing={C([0.,.2])})", f"x({N+1},5,3),i(5,{N+1},3)"),
        ("nn.CrossEntropyLoss()", f"x({N},5),x({N},5).softmax(1).detach()"),
        ("nn.NLLLoss()", f"x({N},5).log_softmax(1),i(5,{N})"),
        (f"nn.BCEWithLogitsLoss(pos_weight={C(['None','torch.tensor(2.)'])})", f"x({N},5),x({N},5).sigmoid().detach()"),
        (f"nn.KLDivLoss(reduction={C(['mean','batchmean','sum'])!r},log_target={b})", f"x({N},5).log_softmax(1),x({N},5).{'log_' if b else ''}softmax(1).detach()"),
        (f"nn.{C(['MSELoss','L1Loss','SmoothL1Loss','HuberLoss','SoftMarginLoss','PoissonNLLLoss','MultiLabelSoftMarginLoss'])}(reduction={C(['mean','sum','none'])!r})", f"x({N},5),x({N},5).sign().abs().detach()"),
        (f"nn.CTCLoss(blank={C([0,2])},reduction={C(['mean','sum'])!r},zero_infinity={b})", f"x(9,2,5).log_softmax(-1),torch.tensor([[1,3,4],[3,3,1]]),torch.tensor([9,{C([7,9])}]),torch.tensor([3,{C([2,3])}])"),
        (f"nn.MarginRankingLoss(margin={C([0.,.5])})", f"x({N}),x({N}),x({N}).sign().detach()"),
        (f"nn.TripletMarginLoss(swap={b},p={C([1,2])})", f"x({N},5),x({N},5),x({N},5)"),
        ("nn.CosineEmbeddingLoss()", f"x({N},5),x({N},5),torch.ones({N})"),
        (f"nn.MultiMarginLoss(p={C([1,2])})", f"x({N},5),i(5,{N})"),
        (f"nn.GaussianNLLLoss(full={b})", f"x({N},5),x({N},5).detach(),x({N},5).abs()"),
        (f"nn.CosineSimilarity({C([0,1])})", f"x({N},5),x({N},5)"),
        (f"nn.PairwiseDistance({C([1.,2.,3.])},keepdim={b})", f"x({N},5),x({N},5)"),
        (f"nn.utils.parametrizations.weight_norm(nn.Linear({w},3))", img),
        (f"nn.utils.parametrizations.spectral_norm(nn.Linear({w},3))", img),
        (f"nn.utils.parametrizations.orthogonal(nn.Linear({w},{w}))", img),
        (f"nn.utils.spectral_norm(nn.Conv2d({c},2,2))", img),
    ]  # fmt: skip
    return C(table)


def show(tensor):
    values = tensor.detach().double().flatten()[:SHOWN].tolist()
    return [str(tensor.dtype).split(".")[-1], list(tensor.shape), ["nan" if v != v else float(f"{v:.6g}") for v in values]]


def flat(output, torch):
    if isinstance(output, torch.Tensor):
        return [output]
    return [t for part in output for t in flat(part, torch)] if isinstance(output, (tuple, list)) else []


def train(torch, module: str, inputs: str, optimizer: str, dtype) -> dict:
    leaves, row = [], {}

    def x(*sizes):
        tensor = torch.randn(sizes).to(dtype).requires_grad_()
        leaves.append(tensor)
        return tensor

    def i(top, *sizes):
        return torch.randint(0, top, sizes)

    made = eval(module, {"nn": torch.nn, "torch": torch}).to(dtype)
    given = eval(f"({inputs},)", {"x": x, "i": i, "torch": torch})
    parameters, steps = list(made.parameters()), None
    if parameters:
        name, options = optimizer.split("(", 1)
        steps = eval(f"torch.optim.{name}(parameters,{options}", {"torch": torch, "parameters": parameters})
    for step in range(2):
        out = flat(made(*given), torch)
        weights = (torch.arange(1, t.numel() + 1, dtype=t.dtype).view(t.shape).cos() if t.is_floating_point() else None for t in out)
        loss = sum((t * weight).sum() for t, weight in zip(out, weights) if weight is not None)
        row[f"out{step}"] = [show(t) for t in out]
        if loss.requires_grad:
            loss.backward(retain_graph=True)
        if steps:
            steps.step()
    row["grads"] = [show(leaf.grad) if leaf.grad is not None else None for leaf in leaves]
    row["state"] = {name: show(t) for name, t in made.state_dict().items()}
    return row


def main(count: str, target: str) -> None:
    import torch

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    rows = []
    for index, (module, inputs, optimizer, dtype) in enumerate(cases(int(count))):
        torch.manual_seed(index)
        row = {"case": f"{module}({inputs}) {optimizer} {dtype}"}
        try:
            row |= train(torch, module, inputs, optimizer, getattr(torch, dtype))
        except Exception as error:
            row["error"] = type(error).__name__
        rows.append(row)
    with open(target, "w") as file:
        json.dump(rows, file)


def near(a, b, tolerance) -> bool:
    if a is None or b is None:
        return a == b
    if a[:2] != b[:2]:
        return False
    largest = max([abs(v) for v in a[2] if v != "nan" and abs(v) < 1e30] or [1])
    return all(u == v or ("nan" not in (u, v) and abs(u - v) <= tolerance * max(1e-3, largest)) for u, v in zip(a[2], b[2]))


def difference(a: dict, b: dict) -> str | None:
    tolerance = TOLERANCE[a["case"].split()[-1]]
    if a.get("error") != b.get("error"):
        return f"error {a.get('error')} | {b.get('error')}"
    for key in ("out0", "out1", "grads"):
        for k, (u, v) in enumerate(zip(a.get(key, []), b.get(key, []))):
            if not near(u, v, tolerance):
                return f"{key}[{k}] {str(u)[:90]} | {str(v)[:90]}"
        if len(a.get(key, [])) != len(b.get(key, [])):
            return f"{key}: another number"
    if list(a.get("state", {})) != list(b.get("state", {})):
        return f"state names {list(a['state'])} | {list(b['state'])}"
    return next((f"state {k}: {str(v)[:80]} | {str(b['state'][k])[:80]}" for k, v in a.get("state", {}).items() if not near(v, b["state"][k], tolerance * 5)), None)


def compare(theirs: str, ours: str) -> tuple[int, int, list[str]]:
    """How many cases there are, how many differ, and lines that say how."""
    groups: dict[str, list[tuple[str, str]]] = {}
    with open(theirs) as a, open(ours) as b:
        pairs = list(zip(json.load(a), json.load(b)))
    for a, b in pairs:
        why = difference(a, b)
        if why:
            case = a["case"]
            groups.setdefault(f"{case.split('(')[0]} {why.split('[')[0].split(':')[0][:40]} {case.split()[-1]}", []).append((case, why))
    lines = []
    for group, found in sorted(groups.items(), key=lambda item: -len(item[1])):
        shortest = min(found, key=lambda f: len(f[0]))
        lines += [f"{len(found):4d} {group}", f"       {shortest[0][:200]}", f"       {shortest[1][:230]}"]
    return len(pairs), sum(map(len, groups.values())), lines


if __name__ == "__main__":
    main(*sys.argv[1:3])
