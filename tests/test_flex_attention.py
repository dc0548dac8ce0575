"""Attention with functions of positions, causal biases, packed sequences."""

import math

import pytest

import facula
from facula.nn import functional as F
from facula.nn.attention import bias, flex_attention, varlen
from facula.nn.attention.flex_attention import AuxRequest, BlockMask, create_block_mask, create_mask

facula.manual_seed(0)
Q, K, V = (facula.randn(2, 4, 40, 8) for _ in range(3))
flex = flex_attention.flex_attention


def causal(b, h, q, k):
    return q >= k


def close(a, b):
    facula.testing.assert_close(a, b, atol=1e-5, rtol=1e-5)


def test_plain_is_scaled_dot_product_attention():
    close(flex(Q, K, V), F.scaled_dot_product_attention(Q, K, V))
    close(flex(Q, K, V, scale=0.3), F.scaled_dot_product_attention(Q, K, V, scale=0.3))
    grouped = F.scaled_dot_product_attention(Q, K[:, :2], V[:, :2], enable_gqa=True)
    close(flex(Q, K[:, :2], V[:, :2], enable_gqa=True), grouped)


@pytest.mark.parametrize("block", [128, 16, (8, 5)])
def test_block_mask(block):
    mask = create_block_mask(causal, None, None, 40, 40, BLOCK_SIZE=block)
    close(flex(Q, K, V, block_mask=mask), F.scaled_dot_product_attention(Q, K, V, is_causal=True))


def test_score_mod_sees_positions_and_captured_tensors():
    slopes = facula.tensor([0.5, 0.25, 0.125, 0.0])
    position = facula.arange(40.0)
    bias_ = slopes.view(4, 1, 1) * (position - position.view(40, 1))
    close(
        flex(Q, K, V, score_mod=lambda s, b, h, q, k: s + slopes[h] * (k - q)),
        F.scaled_dot_product_attention(Q, K, V, attn_mask=bias_),
    )


def test_document_mask():
    document = facula.tensor([0] * 10 + [1] * 30)
    both = flex_attention.and_masks(causal, lambda b, h, q, k: document[q] == document[k])
    out = flex(Q, K, V, block_mask=create_block_mask(both, 1, 1, 40, 40, BLOCK_SIZE=8))
    parts = [F.scaled_dot_product_attention(*(t[:, :, s] for t in (Q, K, V)), is_causal=True) for s in (slice(10), slice(10, 40))]
    close(out, facula.cat(parts, 2))
    either = flex_attention.or_masks(causal, lambda b, h, q, k: q < k)
    assert create_mask(either, 1, 1, 4, 4).all()


def test_gradients():
    x = Q.clone().requires_grad_()
    y = Q.clone().requires_grad_()
    flex(x, K, V, block_mask=create_block_mask(causal, 1, 1, 40, 40)).sin().sum().backward()
    F.scaled_dot_product_attention(y, K, V, is_causal=True).sin().sum().backward()
    close(x.grad, y.grad)


def test_queries_that_see_nothing_give_zeros():
    mask = create_block_mask(lambda b, h, q, k: q >= k + 4, 1, 1, 40, 40, BLOCK_SIZE=4)
    x = Q.clone().requires_grad_()
    out, lse = flex(x, K, V, block_mask=mask, return_lse=True)
    assert (out[:, :, :4] == 0).all() and (lse[:, :, :4] == -math.inf).all()
    out.sum().backward()
    assert x.grad.isfinite().all()


def test_what_else_it_returns():
    scores = Q @ K.transpose(-2, -1) / math.sqrt(8)
    _, lse = flex(Q, K, V, return_lse=True)
    close(lse, scores.logsumexp(-1))
    _, aux = flex(Q, K, V, return_aux=AuxRequest(max_scores=True))
    assert aux.lse is None
    close(aux.max_scores, scores.amax(-1))


# what PyTorch 2.13 gives for a causal mask of 300 in blocks of 128
def test_description_of_a_block_mask():
    mask = create_block_mask(causal, None, None, 300, 300)
    assert mask.shape == (1, 1, 300, 300) and mask.numel() == 90000 and mask.BLOCK_SIZE == (128, 128)
    assert mask.sparsity() == pytest.approx(-9.226666666666672)
    assert mask.kv_num_blocks.tolist() == [[[1, 1, 3]]]
    assert mask.kv_indices.tolist() == [[[[0, 1, 2], [1, 0, 2], [0, 1, 2]]]]
    assert mask.full_kv_num_blocks.tolist() == [[[0, 1, 0]]]
    assert mask.q_num_blocks.tolist() == [[[2, 2, 1]]]
    assert mask.q_indices.tolist() == [[[[0, 2, 1], [1, 2, 0], [2, 0, 1]]]]
    assert mask.to_dense().tolist() == [[[[1, 0, 0], [1, 1, 0], [1, 1, 1]]]]
    assert str(mask) == "BlockMask(shape=(1, 1, 300, 300), sparsity=-9.23%, \n(0, 0)\n██    \n████  \n██████\n)"
    assert "mask_mod=causal" in repr(mask)
    assert mask._adjust(128, 256).to_dense().tolist() == [[[[1, 0]]]]


def test_indexing_and_building_from_blocks():
    mask = create_block_mask(lambda b, h, q, k: q >= k + h, 2, 3, 64, 64, BLOCK_SIZE=16)
    assert mask[0].shape == (1, 3, 64, 64) and mask[:, 1].shape == (2, 1, 64, 64)
    again = BlockMask.from_kv_blocks(mask.kv_num_blocks, mask.kv_indices, mask.full_kv_num_blocks, mask.full_kv_indices, 16)
    assert facula.equal(again.to_dense(), mask.to_dense()) and again.seq_lengths == (64, 64)
    assert facula.equal(again.q_indices, mask.q_indices)


def test_bad_arguments():
    with pytest.raises(NotImplementedError, match="^flex_attention: .*3, 4 and 4"):
        flex(Q[0], K, V)
    with pytest.raises(ValueError, match="^flex_attention: .*4 and 2 heads"):
        flex(Q, K[:, :2], V[:, :2])
    with pytest.raises(ValueError, match=r"^flex_attention: the block_mask .*got \(40, 40\)"):
        flex(Q, K, V, block_mask=create_block_mask(causal, 1, 1, 30, 40))
    with pytest.raises(AssertionError, match="^create_mask: .*3 arguments"):
        create_mask(lambda a, b, c: a, 1, 1, 2, 2)
    with pytest.raises(AssertionError, match="^BlockMask: full_kv"):
        mask = create_block_mask(causal, 1, 1, 8, 8)
        BlockMask.from_kv_blocks(mask.kv_num_blocks, mask.kv_indices, mask.kv_num_blocks)


def test_causal_bias():
    close(
        F.scaled_dot_product_attention(Q[:, :, :30], K, V, attn_mask=bias.causal_lower_right(30, 40)),
        F.scaled_dot_product_attention(Q[:, :, :30], K, V, attn_mask=facula.ones(30, 40, dtype=facula.bool).tril(10)),
    )
    close(
        F.scaled_dot_product_attention(Q, K, V, bias.causal_upper_left(40, 40)),
        F.scaled_dot_product_attention(Q, K, V, is_causal=True),
    )
    assert "True" in repr(bias.causal_upper_left(2, 3))
    with pytest.raises(NotImplementedError, match="^CausalBias"):
        bias.causal_upper_left(2, 3) + 1
    with pytest.warns(UserWarning, match="^CausalBias"):
        bias.causal_lower_right(4, 3)
    with pytest.raises(AssertionError, match="^CausalBias: .*int"):
        bias.CausalBias(3, 4, 5)


def test_packed_sequences():
    x = facula.randn(12, 2, 4)
    starts = facula.tensor([0, 5, 12], dtype=facula.int32)
    out, lse = varlen.varlen_attn(x, x, x, starts, starts, 7, 7, window_size=(-1, 0), return_aux=varlen.AuxRequest(lse=True))
    for part in (slice(0, 5), slice(5, 12)):
        q = x[part].transpose(0, 1)
        close(out[part], F.scaled_dot_product_attention(q, q, q, is_causal=True).transpose(0, 1))
    assert lse.shape == (2, 12)
    with pytest.raises(NotImplementedError, match="^varlen_attn: block_table"):
        varlen.varlen_attn(x, x, x, starts, starts, 7, 7, block_table=starts)
