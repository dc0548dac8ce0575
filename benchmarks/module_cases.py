"""List every module class of torch.nn with arguments and inputs, for either library; `pt2_modules.py` exports them."""

from __future__ import annotations

#: classes that compute nothing themselves, or cannot be exported from one process
NOT_EXPORTED = {
    "Container": "a module without a forward", "Module": "a module without a forward",
    "ModuleDict": "holds modules", "ModuleList": "holds modules", "ParameterDict": "holds parameters",
    "ParameterList": "holds parameters", "RNNBase": "the base of RNN, LSTM and GRU",
    "RNNCellBase": "the base of the cells", "DataParallel": "runs on several devices",
}  # fmt: skip


def cases(torch):
    """Return {name: (function that makes the module, function that makes its inputs, whether it is in training)}."""
    made = {}
    for part in (_layers, _pools_and_pads, _activations, _losses, _recurrent):
        for name, module, inputs, *training in part(torch):
            made[name] = (module, inputs, bool(training))
    return made


def _layers(torch):
    n, r = torch.nn, torch.randn
    images = {1: (2, 4, 9), 2: (2, 4, 7, 8), 3: (2, 4, 5, 6, 7)}
    for d, shape in images.items():
        def image(shape=shape):
            return (r(shape),)

        conv, transposed = getattr(n, f"Conv{d}d"), getattr(n, f"ConvTranspose{d}d")
        yield f"Conv{d}d", lambda conv=conv: conv(4, 6, 3, stride=2, padding=1), image
        yield f"Conv{d}d:groups", lambda conv=conv: conv(4, 4, 3, padding="same", groups=2, dilation=2), image
        yield f"Conv{d}d:reflect", lambda conv=conv: conv(4, 6, 3, padding=1, padding_mode="reflect"), image
        yield f"ConvTranspose{d}d", lambda t=transposed: t(4, 6, 3, stride=2, output_padding=1), image
        for kind in ("BatchNorm", "InstanceNorm"):
            norm, lazy = getattr(n, f"{kind}{d}d"), getattr(n, f"Lazy{kind}{d}d")
            yield f"{kind}{d}d", lambda norm=norm: norm(4), image
            yield f"{kind}{d}d:train", lambda norm=norm: norm(4, affine=True, track_running_stats=True), image, True
            yield f"Lazy{kind}{d}d", lambda lazy=lazy, i=image: _settled(lazy(), i()), image
        for kind in ("Conv", "ConvTranspose"):
            lazy = getattr(n, f"Lazy{kind}{d}d")
            yield f"Lazy{kind}{d}d", lambda lazy=lazy, i=image: _settled(lazy(5, 3), i()), image
        yield f"Dropout{d}d", lambda d=d: getattr(n, f"Dropout{d}d")(0.4), image
        yield f"Dropout{d}d:train", lambda d=d: getattr(n, f"Dropout{d}d")(0.4), image, True
    flat = lambda: (r(3, 4, 8),)  # noqa: E731
    yield "SyncBatchNorm", lambda: n.SyncBatchNorm(4), flat
    yield "GroupNorm", lambda: n.GroupNorm(2, 4), flat
    yield "LayerNorm", lambda: n.LayerNorm(8), flat
    yield "RMSNorm", lambda: n.RMSNorm(8), flat
    yield "LocalResponseNorm", lambda: n.LocalResponseNorm(3), flat
    yield "CrossMapLRN2d", lambda: n.CrossMapLRN2d(3), lambda: (r(2, 4, 5, 6),)
    yield "Linear", lambda: n.Linear(8, 5), flat
    yield "LazyLinear", lambda: _settled(n.LazyLinear(5), flat()), flat
    yield "Identity", lambda: n.Identity(), flat
    yield "Sequential", lambda: n.Sequential(n.Linear(8, 6), n.ReLU(), n.Linear(6, 3)), flat
    yield "Bilinear", lambda: n.Bilinear(4, 5, 3), lambda: (r(6, 4), r(6, 5))
    yield "CosineSimilarity", lambda: n.CosineSimilarity(), lambda: (r(6, 4), r(6, 4))
    yield "PairwiseDistance", lambda: n.PairwiseDistance(), lambda: (r(6, 4), r(6, 4))
    words = lambda: (torch.randint(0, 9, (3, 5)),)  # noqa: E731
    yield "Embedding", lambda: n.Embedding(9, 4, padding_idx=2), words
    yield "Embedding:max_norm", lambda: n.Embedding(9, 4, max_norm=1.0), words
    for mode in ("mean", "sum", "max"):
        yield f"EmbeddingBag:{mode}", lambda mode=mode: n.EmbeddingBag(9, 4, mode=mode), words
    offsets = lambda: (torch.randint(0, 9, (8,)), torch.tensor([0, 3, 5]))  # noqa: E731
    yield "EmbeddingBag:offsets", lambda: n.EmbeddingBag(9, 4), offsets
    weighted = lambda: (*offsets(), r(8))  # noqa: E731
    yield "EmbeddingBag:weights", lambda: n.EmbeddingBag(9, 4, mode="sum"), weighted
    for name in ("Dropout", "AlphaDropout", "FeatureAlphaDropout"):
        yield name, lambda name=name: getattr(n, name)(0.3), flat
        yield f"{name}:train", lambda name=name: getattr(n, name)(0.3), flat, True
    yield "Flatten", lambda: n.Flatten(), flat
    yield "Unflatten", lambda: n.Unflatten(1, (2, 2)), flat
    yield "Fold", lambda: n.Fold((4, 5), (2, 2)), lambda: (r(2, 12, 12),)
    yield "Unfold", lambda: n.Unfold((2, 3), padding=1), lambda: (r(2, 3, 6, 7),)
    yield "ChannelShuffle", lambda: n.ChannelShuffle(2), lambda: (r(2, 4, 5, 6),)
    yield "PixelShuffle", lambda: n.PixelShuffle(2), lambda: (r(2, 8, 5, 6),)
    yield "PixelUnshuffle", lambda: n.PixelUnshuffle(2), lambda: (r(2, 2, 6, 8),)
    image = lambda: (r(2, 3, 5, 6),)  # noqa: E731
    yield "Upsample", lambda: n.Upsample(scale_factor=2), image
    yield "Upsample:bicubic", lambda: n.Upsample(size=(9, 7), mode="bicubic"), image
    yield "Upsample:linear", lambda: n.Upsample(scale_factor=1.5, mode="linear"), lambda: (r(2, 3, 8),)
    yield "Upsample:trilinear", lambda: n.Upsample(scale_factor=2, mode="trilinear"), lambda: (r(2, 3, 4, 3, 5),)
    yield "UpsamplingBilinear2d", lambda: n.UpsamplingBilinear2d(scale_factor=2), image
    yield "UpsamplingNearest2d", lambda: n.UpsamplingNearest2d(size=(8, 9)), image
    tokens = lambda: (r(2, 5, 8),)  # noqa: E731
    attention = lambda: (r(2, 5, 8), r(2, 6, 8), r(2, 6, 8))  # noqa: E731
    yield "MultiheadAttention", lambda: n.MultiheadAttention(8, 2, batch_first=True), attention
    yield "TransformerEncoderLayer", lambda: n.TransformerEncoderLayer(8, 2, 16, batch_first=True), tokens
    yield "TransformerEncoderLayer:train", lambda: n.TransformerEncoderLayer(8, 2, 16, batch_first=True), tokens, True
    layer = lambda kind: getattr(n, f"Transformer{kind}Layer")(8, 2, 16, batch_first=True)  # noqa: E731
    yield "TransformerEncoder", lambda: n.TransformerEncoder(layer("Encoder"), 2), tokens
    pair = lambda: (r(2, 5, 8), r(2, 6, 8))  # noqa: E731
    yield "TransformerDecoderLayer", lambda: layer("Decoder"), pair
    yield "TransformerDecoder", lambda: n.TransformerDecoder(layer("Decoder"), 2), pair
    yield "Transformer", lambda: n.Transformer(8, 2, 1, 1, 16, batch_first=True), pair


def _settled(lazy, inputs):
    """Return a lazy module after its first call."""
    lazy(*inputs)
    return lazy


def _pools_and_pads(torch):
    n, r = torch.nn, torch.randn

    def made(name, *args, **kwargs):
        return lambda: getattr(n, name)(*args, **kwargs)

    for d, shape in {1: (2, 4, 12), 2: (2, 4, 10, 12), 3: (2, 4, 8, 10, 12)}.items():
        def image(shape=shape):
            return (r(shape),)

        for kind in ("MaxPool", "AvgPool"):
            yield f"{kind}{d}d", made(f"{kind}{d}d", 3, stride=2, padding=1, ceil_mode=True), image
        yield f"MaxPool{d}d:indices", made(f"MaxPool{d}d", 2, return_indices=True), image
        yield f"LPPool{d}d", made(f"LPPool{d}d", 2, 3), image
        for kind in ("AdaptiveAvgPool", "AdaptiveMaxPool"):
            yield f"{kind}{d}d", made(f"{kind}{d}d", 3), image
        pool = getattr(n.functional, f"max_pool{d}d")
        yield (
            f"MaxUnpool{d}d", made(f"MaxUnpool{d}d", 2),
            lambda pool=pool, image=image: pool(*image(), 2, return_indices=True),
        )  # fmt: skip
        for kind in ("Circular", "Constant", "Reflection", "Replication", "Zero"):
            value = (1.5,) if kind == "Constant" else ()
            yield f"{kind}Pad{d}d", made(f"{kind}Pad{d}d", (1, 2) * d, *value), image
    yield "FractionalMaxPool2d:train", lambda: n.FractionalMaxPool2d(2, output_size=5), lambda: (r(2, 3, 12, 12),)
    yield "FractionalMaxPool3d:train", lambda: n.FractionalMaxPool3d(2, output_size=4), lambda: (r(2, 3, 9, 9, 9),)


def _activations(torch):
    n, r = torch.nn, torch.randn
    plain = (
        "CELU ELU GELU GLU Hardshrink Hardsigmoid Hardswish Hardtanh LeakyReLU LogSigmoid Mish PReLU ReLU ReLU6 SELU SiLU "
        "Sigmoid Softplus Softshrink Softsign Tanh Tanhshrink RReLU"
    ).split()
    for name in plain:
        yield name, lambda name=name: getattr(n, name)(), lambda: (r(4, 6),)
    yield "RReLU:train", lambda: n.RReLU(), lambda: (r(4, 6),), True
    yield "GELU:tanh", lambda: n.GELU(approximate="tanh"), lambda: (r(4, 6),)
    yield "Threshold", lambda: n.Threshold(0.1, 2.0), lambda: (r(4, 6),)
    for name in ("Softmax", "LogSoftmax", "Softmin"):
        yield name, lambda name=name: getattr(n, name)(dim=1), lambda: (r(4, 6),)
    yield "Softmax2d", lambda: n.Softmax2d(), lambda: (r(2, 3, 4, 5),)


def _losses(torch):
    n, r = torch.nn, torch.randn
    same = lambda: (r(4, 6), r(4, 6))  # noqa: E731
    unit = lambda: (torch.rand(4, 6), torch.rand(4, 6))  # noqa: E731
    classes = lambda: (r(4, 6), torch.randint(0, 6, (4,)))  # noqa: E731
    signs = lambda: (r(4, 6), torch.randint(0, 2, (4, 6)).float() * 2 - 1)  # noqa: E731
    for name in ("MSELoss", "L1Loss", "SmoothL1Loss", "HuberLoss"):
        yield name, lambda name=name: getattr(n, name)(), same
    yield "BCELoss", lambda: n.BCELoss(), unit
    yield "BCEWithLogitsLoss", lambda: n.BCEWithLogitsLoss(pos_weight=torch.ones(6) * 2), unit
    yield "KLDivLoss", lambda: n.KLDivLoss(reduction="batchmean"), unit
    yield "PoissonNLLLoss", lambda: n.PoissonNLLLoss(full=True), unit
    yield "GaussianNLLLoss", lambda: n.GaussianNLLLoss(full=True), lambda: (*same(), torch.rand(4, 6))
    yield "CrossEntropyLoss", lambda: n.CrossEntropyLoss(label_smoothing=0.1), classes
    yield "CrossEntropyLoss:weight", lambda: n.CrossEntropyLoss(weight=torch.arange(1.0, 7), reduction="sum"), classes
    yield "CrossEntropyLoss:probabilities", lambda: n.CrossEntropyLoss(), unit
    yield "NLLLoss", lambda: n.NLLLoss(), classes
    yield "NLLLoss2d", lambda: n.NLLLoss2d(), lambda: (r(2, 3, 4, 5), torch.randint(0, 3, (2, 4, 5)))
    yield "MultiMarginLoss", lambda: n.MultiMarginLoss(), classes
    yield "MultiLabelMarginLoss", lambda: n.MultiLabelMarginLoss(), lambda: (r(2, 4), torch.tensor([[3, 0, -1, 1]] * 2))
    yield "MultiLabelSoftMarginLoss", lambda: n.MultiLabelSoftMarginLoss(), lambda: (r(4, 6), (r(4, 6) > 0).float())
    yield "SoftMarginLoss", lambda: n.SoftMarginLoss(), signs
    yield "HingeEmbeddingLoss", lambda: n.HingeEmbeddingLoss(), signs
    ranks = lambda: (r(4), r(4), torch.tensor([1.0, -1, 1, -1]))  # noqa: E731
    yield "MarginRankingLoss", lambda: n.MarginRankingLoss(0.2), ranks
    yield "CosineEmbeddingLoss", lambda: n.CosineEmbeddingLoss(), lambda: (*same(), torch.tensor([1, -1, 1, -1]))
    three = lambda: (r(4, 6), r(4, 6), r(4, 6))  # noqa: E731
    yield "TripletMarginLoss", lambda: n.TripletMarginLoss(), three
    yield "TripletMarginWithDistanceLoss", lambda: n.TripletMarginWithDistanceLoss(), three
    ctc = lambda: (  # noqa: E731
        r(9, 2, 5).log_softmax(2), torch.randint(1, 5, (2, 4)), torch.tensor([9, 8]), torch.tensor([4, 3])
    )
    yield "CTCLoss", lambda: n.CTCLoss(), ctc
    yield "AdaptiveLogSoftmaxWithLoss", lambda: n.AdaptiveLogSoftmaxWithLoss(8, 12, [4, 8]), lambda: (
        r(5, 8), torch.tensor([0, 3, 5, 9, 11])
    )  # fmt: skip
    yield "LinearCrossEntropyLoss", lambda: n.LinearCrossEntropyLoss(8, 12), lambda: (r(5, 8), torch.randint(0, 12, (5,)))


def _recurrent(torch):
    n, r = torch.nn, torch.randn
    steps = lambda: (r(5, 3, 4),)  # noqa: E731
    for name in ("RNN", "LSTM", "GRU"):
        net = getattr(n, name)
        yield name, lambda net=net: net(4, 6, 2), steps
        yield f"{name}:bidirectional", lambda net=net: net(4, 6, batch_first=True, bidirectional=True, bias=False), steps
        yield f"{name}:train", lambda net=net: net(4, 6, 2, dropout=0.3), steps, True
        cell = getattr(n, f"{name}Cell")
        yield f"{name}Cell", lambda cell=cell: cell(4, 6), lambda: (r(3, 4),)
    yield "RNN:relu", lambda: n.RNN(4, 6, nonlinearity="relu"), steps
    yield "LSTM:projected", lambda: n.LSTM(4, 6, 2, proj_size=3), steps
    yield "LSTM:state", lambda: n.LSTM(4, 6), lambda: (r(5, 3, 4), (r(1, 3, 6), r(1, 3, 6)))
    yield "GRU:state", lambda: n.GRU(4, 6), lambda: (r(5, 3, 4), r(1, 3, 6))
    yield "LSTMCell:state", lambda: n.LSTMCell(4, 6), lambda: (r(3, 4), (r(3, 6), r(3, 6)))
