"""Run lucidrains/x-transformers: losses of variants, generation of one."""

import torch
from figures import check, fill, integers, show
from x_transformers import AutoregressiveWrapper, Decoder, Encoder, TransformerWrapper

VARIANTS = {
    "plain": {}, "rotary": {"rotary_pos_emb": True}, "alibi": {"alibi_pos_bias": True}, "t5": {"rel_pos_bias": True},
    "glu": {"ff_glu": True}, "rmsnorm": {"use_rmsnorm": True}, "sandwich": {"sandwich_norm": True},
    "one head of keys": {"attn_one_kv_head": True}, "talking heads": {"attn_pre_talking_heads": True},
    "gate": {"attn_gate_values": True}, "normalized": {"attn_qk_norm": True}, "memory": {"attn_num_mem_kv": 4},
    "residual": {"residual_attn": True}, "squared": {"ff_relu_squared": True},
}  # fmt: skip


def wrapped(kind, **more):
    return TransformerWrapper(num_tokens=40, max_seq_len=24, attn_layers=kind(dim=32, depth=2, heads=4, **more))


rows = integers(40, 2, 17)
for name, more in VARIANTS.items():
    check(name, AutoregressiveWrapper(wrapped(Decoder, **more)), rows)
check("encoder", wrapped(Encoder), rows)
model = AutoregressiveWrapper(fill(wrapped(Decoder)).eval())
with torch.no_grad():
    show("generated", *model.generate(rows[:1, :4], 8, temperature=0.0).flatten().tolist())
