"""Run transformers: one tiny model of 29 architectures with weights of NumPy; greedy and beam generation."""

import torch
import transformers
from figures import array, check, fill, integers, show

SIZES = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48, "vocab_size": 60,
    "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
GPT = {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 60, "n_positions": 64, "bos_token_id": 1, "eos_token_id": 2}
SPEECH = {"d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4}
FEET = {"encoder_ffn_dim": 48, "decoder_ffn_dim": 48}
PICTURES = {"image_size": 32, "patch_size": 8}
#: name -> arguments of its configuration, and what it reads
MODELS = {
    "Bert": ({}, "text"), "GPT2": (GPT, "text"), "Llama": ({"num_key_value_heads": 2}, "text"), "ViT": (PICTURES, "image"),
    "DistilBert": ({"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48}, "text"), "Roberta": ({}, "text"),
    "Albert": ({"embedding_size": 16}, "text"), "Electra": ({"embedding_size": 16}, "text"),
    "Bart": ({**SPEECH, **FEET}, "both"), "Mistral": ({"num_key_value_heads": 2}, "text"),
    "Qwen2": ({"num_key_value_heads": 2}, "text"), "GPTNeoX": ({}, "text"),
    "OPT": ({"ffn_dim": 48, "word_embed_proj_dim": 32}, "text"), "Phi": ({}, "text"),
    "Gemma": ({"num_key_value_heads": 2, "head_dim": 8}, "text"),
    "Mixtral": ({"num_key_value_heads": 2, "num_local_experts": 2}, "text"),
    "Swin": ({"image_size": 32, "patch_size": 4, "window_size": 4, "embed_dim": 16, "depths": [1, 1], "num_heads": [2, 2]},
             "image"),
    "ConvNext": ({"depths": [1, 1], "hidden_sizes": [16, 32], "num_stages": 2}, "image"),
    "ResNet": ({"depths": [1, 1], "hidden_sizes": [16, 32], "embedding_size": 16}, "image"),
    "Segformer": ({"depths": [1, 1, 1, 1], "hidden_sizes": [8, 16, 16, 32]}, "image"),
    "Wav2Vec2": ({"conv_dim": (16, 16), "conv_kernel": (10, 3), "conv_stride": (5, 2), "num_feat_extract_layers": 2,
                  "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4, "layerdrop": 0.0}, "sound"),
    "Whisper": ({**SPEECH, **FEET, "max_source_positions": 20, "max_target_positions": 20, "num_mel_bins": 8,
                 "decoder_start_token_id": 1}, "speech"),
    "Mamba": ({"state_size": 4}, "text"), "DeiT": (PICTURES, "image"),
    "Deberta": ({"relative_attention": True, "pos_att_type": ["c2p", "p2c"]}, "text"),
    "XLNet": ({"d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 48}, "text"),
    "Longformer": ({"attention_window": 4}, "text"), "Falcon": ({"new_decoder_architecture": False}, "text"),
    "Bloom": ({"n_layer": 2, "n_head": 4}, "text"),
}  # fmt: skip
INPUTS = {
    "text": lambda: {"input_ids": integers(57, 2, 12) + 3},
    "both": lambda: {"input_ids": integers(57, 2, 12) + 3, "decoder_input_ids": integers(57, 2, 7, seed=1) + 3},
    "image": lambda: {"pixel_values": array(2, 3, 32, 32)},
    "sound": lambda: {"input_values": array(2, 400)},
    "speech": lambda: {"input_features": array(2, 8, 40), "decoder_input_ids": integers(57, 2, 7, seed=1) + 3},
}


def without_drops(config):
    """Return the configuration with nothing drawn."""
    for key in list(config.to_dict()):
        if "dropout" in key or "drop_rate" in key or key.endswith("pdrop"):
            setattr(config, key, 0.0)
    return config


for name, (more, reads) in MODELS.items():
    sizes = {} if "depths" in more else {k: v for k, v in SIZES.items() if name != "XLNet" or not k.startswith("max")}
    config = getattr(transformers, f"{name}Config")(**{**sizes, **more})
    model = getattr(transformers, f"{name}Model")(without_drops(config))
    check(name, model, **INPUTS[reads]())

text = {k: v for k, v in SIZES.items() if k not in ("pad_token_id", "bos_token_id", "eos_token_id", "max_position_embeddings")}
text |= {"projection_dim": 16}
clip = transformers.CLIPModel(transformers.CLIPConfig(text_config={**text, "max_position_embeddings": 16, "eos_token_id": 2},
                                                      vision_config={**text, **PICTURES}))  # fmt: skip
check("CLIP", clip, input_ids=integers(57, 2, 12) + 3, pixel_values=array(2, 3, 32, 32))
model = fill(transformers.GPT2LMHeadModel(without_drops(transformers.GPT2Config(**GPT)))).eval()
start = integers(57, 2, 4) + 3
for name, beams in (("greedy", 1), ("beams", 3)):
    more = {"attention_mask": torch.ones_like(start), "do_sample": False, "pad_token_id": 0}
    ids = model.generate(start, max_new_tokens=8, num_beams=beams, **more)
    show(name, *ids.flatten().tolist())
