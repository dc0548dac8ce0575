"""Models and numbers that PyTorch and Facula quantize alike: every case is a function of the library, `torch`.

Numbers come from Python's generator, which is the same everywhere.
"""

import importlib
import random


class Numbers:
    """Tensors of normal numbers."""

    def __init__(self, torch, seed):
        self.torch = torch
        self.source = random.Random(seed)

    def __call__(self, *shape, scale=1.0):
        count = 1
        for size in shape:
            count *= size
        values = [self.source.gauss(0, scale) for _ in range(count)]
        return self.torch.tensor(values).reshape(shape)

    def fill(self, model):
        """Gives parameters and statistics numbers; returns the model."""
        with self.torch.no_grad():
            for name, parameter in sorted(model.named_parameters()):
                parameter.copy_(self(*parameter.shape, scale=0.3) + (1 if name.startswith("bn") else 0))
            for name, buffer in sorted(model.named_buffers()):
                if "running_var" in name:
                    buffer.copy_(self(*buffer.shape).abs() + 0.5)
        return model


def module_of(torch, name):
    return importlib.import_module(f"{torch.nn.__name__.partition('.')[0]}.{name}")


# ---- observers


def observed(kind, inputs, **arguments):
    """The scale and zero point that an observer finds, and what it keeps."""

    def case(torch):
        given = {name: getattr(torch, value) if isinstance(value, str) else value for name, value in arguments.items()}
        observer = getattr(module_of(torch, "ao.quantization.observer"), kind)(**given)
        numbers = Numbers(torch, 3)
        for scale in inputs:
            observer(numbers(4, 6, 5, scale=scale))
        scale, zero_point = observer.calculate_qparams()
        found = [scale.tolist(), zero_point.tolist(), str(zero_point.dtype), observer.min_val.tolist()]
        return found + ([observer.histogram.tolist()] if "bins" in arguments else [])

    return case


def observer_cases():
    three = (1.0, 2.0, 0.5)
    for dtype in ("quint8", "qint8", "qint32", "int16"):
        for scheme in ("per_tensor_affine", "per_tensor_symmetric"):
            for kind in ("MinMaxObserver", "MovingAverageMinMaxObserver"):
                yield f"{kind} {dtype} {scheme}", observed(kind, three, dtype=dtype, qscheme=scheme)
        for scheme in ("per_channel_affine", "per_channel_symmetric", "per_channel_affine_float_qparams"):
            for kind in ("PerChannelMinMaxObserver", "MovingAveragePerChannelMinMaxObserver"):
                yield f"{kind} {dtype} {scheme}", observed(kind, three, dtype=dtype, qscheme=scheme, ch_axis=1)
    for given in ({"reduce_range": True}, {"quant_min": 0, "quant_max": 100}, {"eps": 0.0625}):
        yield f"MinMaxObserver {given}", observed("MinMaxObserver", three, **given)
    for scales in ((1.0,), (1.0, 3.0), (3.0, 1.0), (1.0, 20.0, 5.0)):
        for dtype, scheme in (("quint8", "per_tensor_affine"), ("qint8", "per_tensor_symmetric")):
            yield f"HistogramObserver {scales} {dtype}", observed("HistogramObserver", scales, bins=48, dtype=dtype, qscheme=scheme)


# ---- fake quantization

FAKE = """
default_fake_quant default_weight_fake_quant default_dynamic_fake_quant default_per_channel_weight_fake_quant
default_histogram_fake_quant default_fused_act_fake_quant default_fused_wt_fake_quant default_fused_per_channel_wt_fake_quant
fused_wt_fake_quant_range_neg_127_to_127 default_fixed_qparams_range_0to1_fake_quant
default_fixed_qparams_range_neg1to1_fake_quant default_embedding_fake_quant default_embedding_fake_quant_4bit
""".split()


def rounded_while_training(name):
    def case(torch):
        made = getattr(module_of(torch, "ao.quantization.fake_quantize"), name)()
        numbers = Numbers(torch, 4)
        x = None
        for scale in (1.0, 2.0):
            x = numbers(3, 7, scale=scale).requires_grad_()
            y = made(x)
        y.sum().backward()
        return [y.flatten().tolist(), x.grad.flatten().tolist(), made.scale.tolist(), made.zero_point.tolist(), list(made.state_dict())]

    return case


# ---- models


def net_class(torch):
    """A class of small convolutional networks with all that static quantization meets."""
    nn, quantization, quantized = torch.nn, module_of(torch, "ao.quantization"), module_of(torch, "ao.nn.quantized")

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant, self.dequant = quantization.QuantStub(), quantization.DeQuantStub()
            self.conv1, self.bn1, self.relu1 = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU()
            self.conv2, self.relu2 = nn.Conv2d(8, 8, 3, stride=2, groups=2), nn.ReLU()
            self.conv3, self.bn3 = nn.Conv2d(8, 8, 1, bias=False), nn.BatchNorm2d(8)
            self.add, self.act = quantized.FloatFunctional(), nn.Hardswish()
            self.pool, self.mean, self.drop = nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1), nn.Dropout(0.0)
            self.fc1, self.relu3, self.fc2 = nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 4)

        def forward(self, x):
            x = self.relu1(self.bn1(self.conv1(self.quant(x))))
            x = self.relu2(self.conv2(x))
            x = self.act(self.add.add(x, self.bn3(self.conv3(x))))
            x = self.drop(self.mean(self.pool(x)).flatten(1))
            return self.dequant(self.fc2(self.relu3(self.fc1(x))))

    return Net


FUSED = [["conv1", "bn1", "relu1"], ["conv2", "relu2"], ["conv3", "bn3"], ["fc1", "relu3"]]


def with_engine(torch, backend):
    if backend in torch.backends.quantized.supported_engines:
        torch.backends.quantized.engine = backend


def static(backend):
    """A network quantized after training."""

    def case(torch):
        with_engine(torch, backend)
        quantization, numbers = module_of(torch, "ao.quantization"), Numbers(torch, 5)
        model = numbers.fill(net_class(torch)()).eval()
        model.qconfig = quantization.get_default_qconfig(backend)
        prepared = quantization.prepare(quantization.fuse_modules(model, FUSED))
        inputs = [numbers(4, 3, 14, 14) for _ in range(2)]  # means of nine: never between two levels
        before = [prepared(x).tolist() for x in inputs]
        keys = list(prepared.state_dict())
        made = quantization.convert(prepared)
        kinds = [[name, type(module).__name__] for name, module in made.named_modules()]
        steps = [[name, float(m.scale), int(m.zero_point)] for name, m in made.named_modules() if hasattr(m, "zero_point")]
        return [float(made.fc2.scale), made(inputs[0]).tolist(), before, keys, list(made.state_dict()), kinds, steps]

    return case


def trained(backend, version):
    """A network that trains with rounding, and is then quantized."""

    def case(torch):
        with_engine(torch, backend)
        quantization, numbers = module_of(torch, "ao.quantization"), Numbers(torch, 6)
        model = numbers.fill(net_class(torch)()).train()
        model.qconfig = quantization.get_default_qat_qconfig(backend, version)
        prepared = quantization.prepare_qat(quantization.fuse_modules_qat(model, FUSED))
        keys = list(prepared.state_dict())
        optimizer, losses = torch.optim.SGD(prepared.parameters(), lr=0.05), []
        for step in range(6):
            x, target = numbers(6, 3, 8, 8), torch.tensor([numbers.source.randrange(4) for _ in range(6)])
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(prepared(x), target)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            if step == 3:
                prepared.apply(quantization.disable_observer)
                prepared.apply(module_of(torch, "ao.nn.intrinsic.qat").freeze_bn_stats)
        x = numbers(4, 3, 8, 8)
        made = quantization.convert(prepared.eval())
        return [float(made.fc2.scale), made(x).tolist(), losses, prepared(x).tolist(), keys]

    return case


def linear_with_norm(torch):
    """A linear layer that trains with its batch normalization."""
    with_engine(torch, "x86")
    nn, quantization, numbers = torch.nn, module_of(torch, "ao.quantization"), Numbers(torch, 8)
    model = quantization.QuantWrapper(nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 3, bias=False)))
    model = numbers.fill(model).train()
    model.qconfig = quantization.get_default_qat_qconfig("x86")
    model = quantization.prepare_qat(quantization.fuse_modules_qat(model, ["module.0", "module.1"]))
    for _ in range(3):
        (model(numbers(16, 4)) ** 2).sum().backward()
    gradients = [parameter.grad.flatten().tolist() for parameter in model.parameters()]
    x = numbers(5, 4)
    made = quantization.convert(model.eval())
    return [float(made.module[3].scale), made(x).tolist(), model(x).tolist(), gradients, model.module[0].to_float()(x).tolist()]


def dynamic(dtype):
    """Recurrent and linear layers with quantized weights."""

    def case(torch):
        with_engine(torch, "x86")
        nn, quantization, numbers = torch.nn, module_of(torch, "ao.quantization"), Numbers(torch, 7)
        layers = [
            nn.LSTM(5, 7, num_layers=2, bidirectional=True), nn.GRU(5, 6, batch_first=True), nn.LSTMCell(5, 4),
            nn.GRUCell(5, 3), nn.RNNCell(5, 2), nn.Linear(5, 3),
        ]  # fmt: skip
        made = quantization.quantize_dynamic(numbers.fill(nn.ModuleList(layers)), dtype=getattr(torch, dtype))
        x = numbers(6, 3, 5)
        sequences = [layer(x)[0].tolist() for layer in made[:2]]
        cells = [layer(x[0]) for layer in made[2:]]
        return [*sequences, *((y[0] if isinstance(y, tuple) else y).tolist() for y in cells), repr(made)]

    return case


def all_cases():
    """Every case by name."""
    return {
        **dict(observer_cases()),
        **{name: rounded_while_training(name) for name in FAKE},
        **{f"static {backend}": static(backend) for backend in ("x86", "fbgemm", "qnnpack", "onednn")},
        **{f"trained {backend} {version}": trained(backend, version) for backend, version in (("x86", 0), ("x86", 1), ("qnnpack", 1))},
        "linear_with_norm": linear_with_norm,
        **{f"dynamic {dtype}": dynamic(dtype) for dtype in ("qint8", "float16")},
    }
