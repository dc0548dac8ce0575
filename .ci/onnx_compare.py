"""Exports models of torchvision, timm and transformers (random weights) to ONNX and compares with onnxruntime.

python .ci/onnx_compare.py [--opset 18] [--models resnet18 timm:vit_tiny_patch16_224 transformers:bert] [--limit 1e-4]

Needs the packages onnx, onnxruntime, torchvision, timm, transformers in the environment; they run on Facula.
"""

import argparse
import inspect
import time
import warnings

import facula.compat

facula.compat.install()

import numpy as np  # noqa: E402
import onnx  # noqa: E402
import onnxruntime  # noqa: E402
import torch  # noqa: E402
from torch.utils import _pytree as pytree  # noqa: E402

TORCHVISION = """alexnet vgg11_bn resnet18 resnext50_32x4d densenet121 mobilenet_v2 mobilenet_v3_small shufflenet_v2_x0_5
    squeezenet1_1 mnasnet0_5 efficientnet_b0 efficientnet_v2_s regnet_y_400mf convnext_tiny vit_b_32 swin_t swin_v2_t maxvit_t
    googlenet inception_v3""".split()
TIMM = """resnet10t vit_tiny_patch16_224 deit_tiny_patch16_224 mixer_s32_224 resmlp_12_224 convnext_atto convnextv2_atto
    mobilenetv4_conv_small efficientnet_lite0 ghostnet_100 hardcorenas_a tinynet_e lcnet_050 levit_128s mobilevit_xxs
    edgenext_xx_small poolformer_s12 regnetz_005 repvgg_a0 xcit_nano_12_p16_224 coat_lite_tiny pit_ti_224 fastvit_t8 nfnet_l0
    gcresnet33ts eva02_tiny_patch14_224 beit_base_patch16_224 crossvit_tiny_240 twins_svt_small visformer_tiny""".split()
TRANSFORMERS = {
    "bert": "BertModel", "distilbert": "DistilBertModel", "gpt2": "GPT2LMHeadModel", "llama": "LlamaForCausalLM",
    "t5": "T5EncoderModel", "roberta": "RobertaModel", "albert": "AlbertModel", "electra": "ElectraModel",
    "opt": "OPTForCausalLM", "qwen2": "Qwen2ForCausalLM",
}  # fmt: skip
SMALL = {
    "vocab_size": 100, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64,
    "max_position_embeddings": 64, "num_key_value_heads": 2, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64,
    "n_embd": 32, "n_layer": 2, "n_head": 4, "d_model": 32, "num_layers": 2, "num_heads": 4, "d_kv": 8, "d_ff": 64,
    "ffn_dim": 64, "embedding_size": 32, "word_embed_proj_dim": 32, "pad_token_id": 0,
}  # fmt: skip


def built(name):
    """A model and its inputs."""
    torch.manual_seed(0)
    package, _, word = name.rpartition(":")
    if package == "timm":
        import timm

        model = timm.create_model(word, pretrained=False)
        return model, (torch.randn(2, *model.default_cfg["input_size"]),)
    if package == "transformers":
        import transformers

        kind = getattr(transformers, TRANSFORMERS[word])
        known = inspect.signature(kind.config_class.__init__).parameters
        config = kind.config_class(**{k: v for k, v in SMALL.items() if k in known or hasattr(kind.config_class(), k)})
        config.use_cache = False
        return kind(config), (torch.randint(1, 99, (2, 10)),)
    import torchvision

    more = {"init_weights": False} if word in ("googlenet", "inception_v3") else {}
    size = 299 if word == "inception_v3" else 224
    return torchvision.models.get_model(word, weights=None, **more), (torch.randn(2, 3, size, size),)


def difference(model, args, opset):
    """The largest difference between model and onnxruntime, relative to 1 + the value, and the number of nodes."""
    with torch.no_grad():
        program = torch.onnx.export(model, args, opset_version=opset)
        wanted = [r for r in pytree.tree_leaves(model(*args)) if isinstance(r, torch.Tensor)]
    data = program.serialize()
    onnx.checker.check_model(onnx.load_model_from_string(data), full_check=True)
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    got = session.run(None, {i.name: a.numpy() for i, a in zip(session.get_inputs(), args)})
    worst = 0.0
    for w, g in zip(wanted, got):
        w = w.numpy()
        if w.shape != g.shape or w.dtype != g.dtype:
            raise AssertionError(f"expected {w.dtype}{list(w.shape)}, got {g.dtype}{list(g.shape)}")
        worst = max(worst, float(np.max(np.abs(w.astype("f8") - g) / (1 + np.abs(w)), initial=0)))
    return worst, len(program.graph.nodes)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--opset", type=int, default=18)
    parser.add_argument("--limit", type=float, default=1e-4)
    parser.add_argument("--models", nargs="*")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    onnxruntime.set_default_logger_severity(4)
    every = [*TORCHVISION, *(f"timm:{n}" for n in TIMM), *(f"transformers:{n}" for n in TRANSFORMERS)]
    good, names = 0, options.models or every
    for name in names:
        start = time.time()
        try:
            model, args = built(name)
            worst, nodes = difference(model.eval(), args, options.opset)
            good += worst <= options.limit
            word = "ok  " if worst <= options.limit else "DIFF"
            print(f"{word} {name}: {worst:.1e}, {nodes} nodes, {time.time() - start:.0f} s", flush=True)
        except Exception as error:
            print(f"FAIL {name}: {type(error).__name__}: {str(error)[:300]}", flush=True)
    print(f"opset {options.opset}: {good} of {len(names)} models agree within {options.limit:g}")


if __name__ == "__main__":
    main()
