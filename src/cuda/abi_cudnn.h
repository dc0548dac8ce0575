// Declares the part of cuDNN that Facula calls, of its backend (graph) interface and of its recurrent layers, from
// NVIDIA's documentation (.ci/check_abi.py compares it with NVIDIA's headers).
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/abi.h"

using cudnnHandle_t = struct cudnnContext*;
using cudnnBackendDescriptor_t = void*;

enum cudnnStatus_t : int {
  CUDNN_STATUS_SUCCESS = 0,
  CUDNN_STATUS_BAD_PARAM = 2000,
  CUDNN_STATUS_NOT_SUPPORTED = 3000,
  CUDNN_STATUS_INTERNAL_ERROR = 4000,
  CUDNN_STATUS_EXECUTION_FAILED = 5000,
};
enum cudnnDataType_t : int {
  CUDNN_DATA_FLOAT = 0,
  CUDNN_DATA_DOUBLE = 1,
  CUDNN_DATA_HALF = 2,
  CUDNN_DATA_INT32 = 4,
  CUDNN_DATA_BFLOAT16 = 9,
  CUDNN_DATA_INT64 = 10,
  CUDNN_DATA_BOOLEAN = 11,
};
enum cudnnPointwiseMode_t : int {
  CUDNN_POINTWISE_ADD = 0,
  CUDNN_POINTWISE_MUL = 1,
  CUDNN_POINTWISE_DIV = 6,
  CUDNN_POINTWISE_SUB = 9,
  CUDNN_POINTWISE_EXP = 13,
  CUDNN_POINTWISE_LOG = 15,
  CUDNN_POINTWISE_IDENTITY = 21,
  CUDNN_POINTWISE_CMP_GE = 303,
  CUDNN_POINTWISE_GEN_INDEX = 501,
  CUDNN_POINTWISE_BINARY_SELECT = 601,
};
enum cudnnReduceTensorOp_t : int { CUDNN_REDUCE_TENSOR_ADD = 0, CUDNN_REDUCE_TENSOR_MAX = 3 };
enum cudnnRngDistribution_t : int { CUDNN_RNG_DISTRIBUTION_BERNOULLI = 0 };
enum cudnnConvolutionMode_t : int { CUDNN_CROSS_CORRELATION = 1 };
enum cudnnBackendHeurMode_t : int { CUDNN_HEUR_MODE_FALLBACK = 2, CUDNN_HEUR_MODE_A = 3 };
enum cudnnBackendNumericalNote_t : int {
  CUDNN_NUMERICAL_NOTE_TENSOR_CORE = 0,
  CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS = 1,
  CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC = 4,
  CUDNN_NUMERICAL_NOTE_TYPE_COUNT = 10,
};

enum cudnnBackendDescriptorType_t : int {
  CUDNN_BACKEND_POINTWISE_DESCRIPTOR = 0,
  CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR = 1,
  CUDNN_BACKEND_ENGINE_DESCRIPTOR = 2,
  CUDNN_BACKEND_ENGINECFG_DESCRIPTOR = 3,
  CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR = 4,
  CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR = 5,
  CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR = 10,
  CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR = 11,
  CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR = 12,
  CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR = 13,
  CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR = 15,
  CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR = 16,
  CUDNN_BACKEND_TENSOR_DESCRIPTOR = 17,
  CUDNN_BACKEND_MATMUL_DESCRIPTOR = 18,
  CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR = 19,
  CUDNN_BACKEND_REDUCTION_DESCRIPTOR = 21,
  CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR = 22,
  CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR = 31,
  CUDNN_BACKEND_RNG_DESCRIPTOR = 32,
  CUDNN_BACKEND_OPERATION_RNG_DESCRIPTOR = 33,
};

enum cudnnBackendAttributeType_t : int {
  CUDNN_TYPE_HANDLE = 0,
  CUDNN_TYPE_DATA_TYPE = 1,
  CUDNN_TYPE_BOOLEAN = 2,
  CUDNN_TYPE_INT64 = 3,
  CUDNN_TYPE_FLOAT = 4,
  CUDNN_TYPE_DOUBLE = 5,
  CUDNN_TYPE_VOID_PTR = 6,
  CUDNN_TYPE_CONVOLUTION_MODE = 7,
  CUDNN_TYPE_HEUR_MODE = 8,
  CUDNN_TYPE_NUMERICAL_NOTE = 11,
  CUDNN_TYPE_POINTWISE_MODE = 14,
  CUDNN_TYPE_BACKEND_DESCRIPTOR = 15,
  CUDNN_TYPE_REDUCTION_OPERATOR_TYPE = 18,
  CUDNN_TYPE_RNG_DISTRIBUTION = 29,
};

enum cudnnBackendAttributeName_t : int {
  CUDNN_ATTR_POINTWISE_MODE = 0,
  CUDNN_ATTR_POINTWISE_MATH_PREC = 1,
  CUDNN_ATTR_POINTWISE_AXIS = 9,
  CUDNN_ATTR_CONVOLUTION_COMP_TYPE = 100,
  CUDNN_ATTR_CONVOLUTION_CONV_MODE = 101,
  CUDNN_ATTR_CONVOLUTION_DILATIONS = 102,
  CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES = 103,
  CUDNN_ATTR_CONVOLUTION_POST_PADDINGS = 104,
  CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS = 105,
  CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS = 106,
  CUDNN_ATTR_ENGINEHEUR_MODE = 200,
  CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH = 201,
  CUDNN_ATTR_ENGINEHEUR_RESULTS = 202,
  CUDNN_ATTR_ENGINECFG_ENGINE = 300,
  CUDNN_ATTR_EXECUTION_PLAN_HANDLE = 400,
  CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG = 401,
  CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE = 402,
  // the operations: alpha, beta, convolution, and their three tensors
  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA = 700,
  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA = 701,
  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC = 702,
  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W = 703,
  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X = 704,
  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y = 705,
  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA = 706,
  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA = 707,
  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC = 708,
  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W = 709,
  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX = 710,
  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY = 711,
  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA = 712,
  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA = 713,
  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC = 714,
  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW = 715,
  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X = 716,
  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY = 717,
  CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR = 750,
  CUDNN_ATTR_OPERATION_POINTWISE_XDESC = 751,
  CUDNN_ATTR_OPERATION_POINTWISE_BDESC = 752,
  CUDNN_ATTR_OPERATION_POINTWISE_YDESC = 753,
  CUDNN_ATTR_OPERATION_POINTWISE_TDESC = 758,
  CUDNN_ATTR_OPERATIONGRAPH_HANDLE = 800,
  CUDNN_ATTR_OPERATIONGRAPH_OPS = 801,
  CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT = 900,
  CUDNN_ATTR_TENSOR_DATA_TYPE = 901,
  CUDNN_ATTR_TENSOR_DIMENSIONS = 902,
  CUDNN_ATTR_TENSOR_STRIDES = 903,
  CUDNN_ATTR_TENSOR_UNIQUE_ID = 906,
  CUDNN_ATTR_TENSOR_IS_VIRTUAL = 907,
  CUDNN_ATTR_TENSOR_IS_BY_VALUE = 908,
  CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS = 1000,
  CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS = 1001,
  CUDNN_ATTR_VARIANT_PACK_WORKSPACE = 1003,
  CUDNN_ATTR_ENGINE_NUMERICAL_NOTE = 1303,
  CUDNN_ATTR_MATMUL_COMP_TYPE = 1500,
  CUDNN_ATTR_OPERATION_MATMUL_ADESC = 1520,
  CUDNN_ATTR_OPERATION_MATMUL_BDESC = 1521,
  CUDNN_ATTR_OPERATION_MATMUL_CDESC = 1522,
  CUDNN_ATTR_OPERATION_MATMUL_DESC = 1523,
  CUDNN_ATTR_REDUCTION_OPERATOR = 1600,
  CUDNN_ATTR_REDUCTION_COMP_TYPE = 1601,
  CUDNN_ATTR_OPERATION_REDUCTION_XDESC = 1610,
  CUDNN_ATTR_OPERATION_REDUCTION_YDESC = 1611,
  CUDNN_ATTR_OPERATION_REDUCTION_DESC = 1612,
  CUDNN_ATTR_OPERATION_RESHAPE_XDESC = 2200,
  CUDNN_ATTR_OPERATION_RESHAPE_YDESC = 2201,
  CUDNN_ATTR_RNG_DISTRIBUTION = 2300,
  CUDNN_ATTR_RNG_BERNOULLI_DIST_PROBABILITY = 2305,
  CUDNN_ATTR_OPERATION_RNG_YDESC = 2310,
  CUDNN_ATTR_OPERATION_RNG_SEED = 2311,
  CUDNN_ATTR_OPERATION_RNG_DESC = 2312,
  CUDNN_ATTR_OPERATION_RNG_OFFSET_DESC = 2313,
};

// X(name, parameters...): a function of libcudnn that gives a cudnnStatus_t
#define FACULA_DNN_FUNCTIONS(X)                                                                            \
  X(cudnnCreate, cudnnHandle_t* handle)                                                                    \
  X(cudnnDestroy, cudnnHandle_t handle)                                                                    \
  X(cudnnSetStream, cudnnHandle_t handle, CUstream stream)                                                 \
  X(cudnnBackendCreateDescriptor, cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* descriptor) \
  X(cudnnBackendDestroyDescriptor, cudnnBackendDescriptor_t descriptor)                                    \
  X(cudnnBackendFinalize, cudnnBackendDescriptor_t descriptor)                                             \
  X(cudnnBackendSetAttribute, cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,       \
    cudnnBackendAttributeType_t type, int64_t count, const void* values)                                   \
  X(cudnnBackendGetAttribute, cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,       \
    cudnnBackendAttributeType_t type, int64_t requested, int64_t* count, void* values)                     \
  X(cudnnBackendExecute, cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack)

// ---- recurrent layers

using cudnnTensorDescriptor_t = struct cudnnTensorStruct*;
using cudnnDropoutDescriptor_t = struct cudnnDropoutStruct*;
using cudnnRNNDescriptor_t = struct cudnnRNNStruct*;
using cudnnRNNDataDescriptor_t = struct cudnnRNNDataStruct*;

enum cudnnMathType_t : int { CUDNN_DEFAULT_MATH = 0, CUDNN_TENSOR_OP_MATH = 1, CUDNN_FMA_MATH = 3 };
enum cudnnForwardMode_t : int { CUDNN_FWD_MODE_INFERENCE = 0, CUDNN_FWD_MODE_TRAINING = 1 };
enum cudnnWgradMode_t : int { CUDNN_WGRAD_MODE_ADD = 0 };
enum cudnnRNNAlgo_t : int { CUDNN_RNN_ALGO_STANDARD = 0 };
enum cudnnRNNMode_t : int { CUDNN_RNN_RELU = 0, CUDNN_RNN_TANH = 1, CUDNN_LSTM = 2, CUDNN_GRU = 3 };
enum cudnnRNNBiasMode_t : int { CUDNN_RNN_NO_BIAS = 0, CUDNN_RNN_DOUBLE_BIAS = 2 };
enum cudnnDirectionMode_t : int { CUDNN_UNIDIRECTIONAL = 0, CUDNN_BIDIRECTIONAL = 1 };
enum cudnnRNNInputMode_t : int { CUDNN_LINEAR_INPUT = 0 };
enum cudnnRNNDataLayout_t : int {
  CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED = 0,
  CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED = 1,
};
// the last parameter of cudnnSetRNNDescriptor_v8
constexpr uint32_t kRnnPaddedDisabled = 0, kRnnPaddedEnabled = 1;

#define FACULA_DNN_RNN_FUNCTIONS(X)                                                                                    \
  X(cudnnCreateTensorDescriptor, cudnnTensorDescriptor_t* tensor)                                                      \
  X(cudnnDestroyTensorDescriptor, cudnnTensorDescriptor_t tensor)                                                      \
  X(cudnnSetTensorNdDescriptor, cudnnTensorDescriptor_t tensor, cudnnDataType_t type, int dims, const int sizes[],     \
    const int strides[])                                                                                               \
  X(cudnnGetTensorNdDescriptor, cudnnTensorDescriptor_t tensor, int requested, cudnnDataType_t* type, int* dims,       \
    int sizes[], int strides[])                                                                                        \
  X(cudnnCreateDropoutDescriptor, cudnnDropoutDescriptor_t* dropout)                                                   \
  X(cudnnDestroyDropoutDescriptor, cudnnDropoutDescriptor_t dropout)                                                   \
  X(cudnnDropoutGetStatesSize, cudnnHandle_t handle, size_t* bytes)                                                    \
  X(cudnnSetDropoutDescriptor, cudnnDropoutDescriptor_t dropout, cudnnHandle_t handle, float p, void* states,          \
    size_t bytes, unsigned long long seed)                                                                             \
  X(cudnnRestoreDropoutDescriptor, cudnnDropoutDescriptor_t dropout, cudnnHandle_t handle, float p, void* states,      \
    size_t bytes, unsigned long long seed)                                                                             \
  X(cudnnCreateRNNDescriptor, cudnnRNNDescriptor_t* rnn)                                                               \
  X(cudnnDestroyRNNDescriptor, cudnnRNNDescriptor_t rnn)                                                               \
  X(cudnnSetRNNDescriptor_v8, cudnnRNNDescriptor_t rnn, cudnnRNNAlgo_t algorithm, cudnnRNNMode_t mode,                 \
    cudnnRNNBiasMode_t biases, cudnnDirectionMode_t directions, cudnnRNNInputMode_t first, cudnnDataType_t type,       \
    cudnnDataType_t computed, cudnnMathType_t math, int32_t input, int32_t hidden, int32_t projected, int32_t layers,  \
    cudnnDropoutDescriptor_t dropout, uint32_t padded)                                                                 \
  X(cudnnGetRNNTempSpaceSizes, cudnnHandle_t handle, cudnnRNNDescriptor_t rnn, cudnnForwardMode_t mode,                \
    cudnnRNNDataDescriptor_t x, size_t* workspace, size_t* reserve)                                                    \
  X(cudnnGetRNNWeightSpaceSize, cudnnHandle_t handle, cudnnRNNDescriptor_t rnn, size_t* bytes)                         \
  X(cudnnGetRNNWeightParams, cudnnHandle_t handle, cudnnRNNDescriptor_t rnn, int32_t layer, size_t bytes,              \
    const void* weights, int32_t part, cudnnTensorDescriptor_t matrix, void** matrix_at, cudnnTensorDescriptor_t bias, \
    void** bias_at)                                                                                                    \
  X(cudnnCreateRNNDataDescriptor, cudnnRNNDataDescriptor_t* data)                                                      \
  X(cudnnDestroyRNNDataDescriptor, cudnnRNNDataDescriptor_t data)                                                      \
  X(cudnnSetRNNDataDescriptor, cudnnRNNDataDescriptor_t data, cudnnDataType_t type, cudnnRNNDataLayout_t layout,       \
    int steps, int batch, int features, const int lengths[], void* padding)                                            \
  X(cudnnRNNForward, cudnnHandle_t handle, cudnnRNNDescriptor_t rnn, cudnnForwardMode_t mode, const int32_t lengths[], \
    cudnnRNNDataDescriptor_t x_is, const void* x, cudnnRNNDataDescriptor_t y_is, void* y,                              \
    cudnnTensorDescriptor_t h_is, const void* hx, void* hy, cudnnTensorDescriptor_t c_is, const void* cx, void* cy,    \
    size_t weight_bytes, const void* weights, size_t workspace_bytes, void* workspace, size_t reserve_bytes,           \
    void* reserve)                                                                                                     \
  X(cudnnRNNBackwardData_v8, cudnnHandle_t handle, cudnnRNNDescriptor_t rnn, const int32_t lengths[],                  \
    cudnnRNNDataDescriptor_t y_is, const void* y, const void* dy, cudnnRNNDataDescriptor_t x_is, void* dx,             \
    cudnnTensorDescriptor_t h_is, const void* hx, const void* dhy, void* dhx, cudnnTensorDescriptor_t c_is,            \
    const void* cx, const void* dcy, void* dcx, size_t weight_bytes, const void* weights, size_t workspace_bytes,      \
    void* workspace, size_t reserve_bytes, void* reserve)                                                              \
  X(cudnnRNNBackwardWeights_v8, cudnnHandle_t handle, cudnnRNNDescriptor_t rnn, cudnnWgradMode_t add,                  \
    const int32_t lengths[], cudnnRNNDataDescriptor_t x_is, const void* x, cudnnTensorDescriptor_t h_is,               \
    const void* hx, cudnnRNNDataDescriptor_t y_is, const void* y, size_t weight_bytes, void* dweights,                 \
    size_t workspace_bytes, void* workspace, size_t reserve_bytes, void* reserve)
