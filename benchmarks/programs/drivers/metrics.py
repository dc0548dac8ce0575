"""Run torchmetrics: 20 metrics, each over two batches."""

import torchmetrics as tm
from figures import array, integers, show
from torchmetrics import classification as c
from torchmetrics import image, regression, text

probabilities, labels = [array(20, 4, seed=s).softmax(1) for s in (0, 1)], [integers(4, 20, seed=s) for s in (2, 3)]
values, targets = [array(30, seed=s) for s in (4, 5)], [array(30, seed=s) for s in (6, 7)]
pictures = [array(2, 3, 24, 24, seed=s).sigmoid() for s in (8, 9)]
others = [(p + 0.1 * array(2, 3, 24, 24, seed=10)).clamp(0, 1) for p in pictures]
for name, metric, first, second in [
    *[(type(m).__name__, m, probabilities, labels) for m in (
        c.MulticlassAccuracy(4), c.MulticlassF1Score(4), c.MulticlassPrecision(4), c.MulticlassRecall(4), c.MulticlassAUROC(4),
        c.MulticlassConfusionMatrix(4), c.MulticlassCohenKappa(4), c.MulticlassMatthewsCorrCoef(4),
        c.MulticlassCalibrationError(4), c.MulticlassAveragePrecision(4),
    )],
    *[(type(m).__name__, m, values, targets) for m in (
        regression.MeanSquaredError(), regression.MeanAbsoluteError(), regression.R2Score(), regression.PearsonCorrCoef(),
        regression.SpearmanCorrCoef(), regression.ExplainedVariance(),
    )],
    ("SSIM", image.StructuralSimilarityIndexMeasure(data_range=1.0), pictures, others),
    ("PSNR", image.PeakSignalNoiseRatio(data_range=1.0), pictures, others),
]:  # fmt: skip
    for a, b in zip(first, second, strict=True):
        metric.update(a, b)
    show(name, metric.compute().float())
show("words", text.WordErrorRate()(["a b c", "d e"], ["a x c", "d e f"]))
show("mean", tm.MeanMetric()(array(5)))
