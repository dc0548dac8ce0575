// Errors begin with the op that a user called. What an op is made of has names of its own, which mean nothing to users.
// The policy: what PyTorch itself calls by a name with an underscore keeps it; the table has the others whose public
// name is not their own without the underscore and without the part that says which piece of the op they are.
#include "core/public_names.h"

#include <algorithm>
#include <type_traits>

#include "core/op_id.h"

namespace facula {
namespace {

struct Entry {
  std::string_view op, text;
};

constexpr Entry kNames[] = {
    {"_attention", "scaled_dot_product_attention"},
    {"_attention_weights", "scaled_dot_product_attention"},
    {"_bag_argmax", "embedding_bag"},
    {"_bag_members", "embedding_bag"},
    {"_bag_sum", "embedding_bag"},
    {"_bce", "binary_cross_entropy"},
    {"_bce_logits", "binary_cross_entropy_with_logits"},
    {"_channel_norm", "batch_norm"},
    {"_class_weights", "cross_entropy"},
    {"_converted", "to_sparse"},
    {"_cross", "linalg.cross"},
    {"_ctc", "ctc_loss"},
    {"_cube", "pow"},
    {"_distance_root", "cdist"},
    {"_div_floor", "div"},
    {"_div_trunc", "div"},
    {"_dynamic_int8_linear", "linear"},
    {"_fake_quantize", "fake_quantize"},
    {"_fft_c2c", "fft.fft"},
    {"_fft_c2r", "fft.irfft"},
    {"_fft_r2c", "fft.rfft"},
    {"_fft_real", "fft.hfft"},
    {"_gated", "glu"},
    {"_gelu_erf", "gelu"},
    {"_gelu_tanh", "gelu"},
    {"_householder", "linalg.householder_product"},
    {"_huber", "huber_loss"},
    {"_int8_conv", "quantized.conv"},
    {"_int8_linear", "linear"},
    {"_linalg_eigh", "linalg.eigh"},
    {"_linalg_eigvals", "linalg.eigvals"},
    {"_linalg_pinv", "linalg.pinv"},
    {"_linalg_qr", "linalg.qr"},
    {"_linalg_svd", "linalg.svd"},
    {"_lu_permutation", "lu_unpack"},
    {"_lu_solve", "linalg.lu_solve"},
    {"_masked_scale", "dropout"},
    {"_mse", "mse_loss"},
    {"_nll", "nll_loss"},
    {"_nonzero_pattern", "to_sparse"},
    {"_pad_edges", "pad"},
    {"_prod_others", "prod"},
    {"_quantize", "quantize_per_tensor"},
    {"_quantize_inside", "quantize_per_tensor"},
    {"_resize_as_compressed_", "resize_as_sparse_"},
    {"_rnn", "rnn"},
    {"_round_scaled", "round"},
    {"_row_norm", "layer_norm"},
    {"_rrelu_slopes", "rrelu"},
    {"_scale_grad", "backward"},
    {"_shrink", "hardshrink"},
    {"_smooth_l1", "smooth_l1_loss"},
    {"_sparse_addmm", "sparse.addmm"},
    {"_sparse_bmm", "bmm"},
    {"_sparse_compressed_pattern", "sparse_compressed_tensor"},
    {"_sparse_coo_pattern", "sparse_coo_tensor"},
    {"_sparse_linear", "linear"},
    {"_sparse_mm_product", "sparse.mm"},
    {"_sparse_mv", "mv"},
    {"_sparse_sum_dim", "sparse.sum"},
    {"_sparse_to_dense", "to_dense"},
    {"_sparse_zeros", "zeros"},
    {"_static_int8_linear", "linear"},
    {"_to_device", "to"},
    {"_trigamma", "polygamma"},
    {"_unique_rows", "unique"},
    {"_upsample_bicubic2d_aa", "interpolate"},
    {"_upsample_bilinear2d_aa", "interpolate"},
    {"_upsample_lanczos2d_aa", "interpolate"},
    {"_upsample_nearest_exact1d", "interpolate"},
    {"_upsample_nearest_exact2d", "interpolate"},
    {"_upsample_nearest_exact3d", "interpolate"},
    {"_values_by", "sparse_coo_tensor"},
    {"_with_values", "sparse_coo_tensor"},
    {"_xlog1py", "special.xlog1py"},
    {"_zero_like", "zeros_like"},
};
static_assert(std::is_sorted(std::begin(kNames), std::end(kNames),
                             [](const Entry& a, const Entry& b) { return a.op < b.op; }));

/// PyTorch's own names, by which programs call them.
constexpr std::string_view kKept[] = {
    "_coalesced_",
    "_dirichlet_grad",
    "_indices",
    "_int_mm",
    "_nnz",
    "_sample_dirichlet",
    "_scaled_mm",
    "_sparse_compressed_tensor_unsafe",
    "_sparse_coo_tensor_unsafe",
    "_standard_gamma",
    "_standard_gamma_grad",
    "_values",
    "_weight_int8pack_mm",
};

/// The pieces that an op is made of, the longer endings first.
constexpr std::string_view kPieces[] = {
    "_double_backward", "_backward_exponent", "_steps_backward", "_backward", "_in_one", "_in_ops", "_kept", "_each",
    "_kernel",          "_mantissa",          "_exponent",       "_layer",    "_steps",  "_step",
};

}  // namespace

std::string_view public_op_name(std::string_view op) {
  if (op.size() < 2 || op[0] != '_' || op[1] == '_' || !find_op_info(op)) return op;
  if (std::find(std::begin(kKept), std::end(kKept), op) != std::end(kKept)) return op;
  for (std::string_view piece : kPieces) {
    if (op.size() <= piece.size() + 1 || !op.ends_with(piece)) continue;
    op.remove_suffix(piece.size());
    break;
  }
  const auto found = std::lower_bound(std::begin(kNames), std::end(kNames), op,
                                      [](const Entry& entry, std::string_view name) { return entry.op < name; });
  if (found != std::end(kNames) && found->op == op) return found->text;
  return op.substr(1);
}

std::string with_public_name(std::string_view text) {
  const size_t end = text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
  if (end == 0 || end == std::string_view::npos || (text[end] != ':' && text[end] != '(')) return std::string(text);
  std::string name(text.substr(0, end));
  if (!find_op_info(name)) name.insert(0, 1, '_');  // element-wise loops are called so without the underscore
  if (name[0] != '_' || !find_op_info(name)) return std::string(text);  // a method or function that PyTorch calls so
  return std::string(public_op_name(name)).append(text.substr(end));
}

}  // namespace facula
