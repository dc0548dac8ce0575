"""Build sixty models of torchvision, timm and transformers with random weights, for programs that compare libraries.

`torch` is the library that they are built with: PyTorch, or Facula after `facula.compat.install()`.
"""

from __future__ import annotations

import inspect

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

NAMES = [*TORCHVISION, *(f"timm:{n}" for n in TIMM), *(f"transformers:{n}" for n in TRANSFORMERS)]


def prepare(name):
    """Import what says how results of this model are nested: whoever reads its program has to know the classes."""
    package, _, word = name.rpartition(":")
    if package == "transformers":
        import transformers

        getattr(transformers, TRANSFORMERS[word])


def built(torch, name):
    """Return a model and its inputs. Weights that begin as zeros are drawn: they would hide what is before them."""
    torch.manual_seed(0)
    model, inputs = _built(torch, name)
    with torch.no_grad():
        for path, parameter in model.named_parameters():
            if path.endswith("weight") and not parameter.any():
                parameter.normal_(std=0.05)
    return model, inputs


def _built(torch, name):
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
