// Declares what the parts of cuDNN's stand-in share.
#pragma once

#include "cuda/abi_cudnn.h"
#include "emulator/library.h"

struct cudnnContext {
  CUstream stream = nullptr;
};

namespace facula::emulator {

inline cudnnStatus_t wrong(const char* call, const std::string& why, cudnnStatus_t status = CUDNN_STATUS_BAD_PARAM) {
  return static_cast<cudnnStatus_t>(refused(call, why, status));
}
inline int64_t bytes_of(cudnnDataType_t type) {
  return type == CUDNN_DATA_DOUBLE ? 8 : type == CUDNN_DATA_FLOAT ? 4 : 2;
}
inline double load(cudnnDataType_t type, const void* data, int64_t i) {
  switch (type) {
    case CUDNN_DATA_DOUBLE: return Plain::load<double>(data, i);
    case CUDNN_DATA_FLOAT: return Plain::load<float>(data, i);
    case CUDNN_DATA_HALF: return Half::load<double>(data, i);
    default: return Brain::load<double>(data, i);
  }
}
inline void store(cudnnDataType_t type, void* data, int64_t i, double value) {
  switch (type) {
    case CUDNN_DATA_DOUBLE: return Plain::store(data, i, value);
    case CUDNN_DATA_FLOAT: return Plain::store(data, i, static_cast<float>(value));
    case CUDNN_DATA_HALF: return Half::store(data, i, value);
    default: return Brain::store(data, i, value);
  }
}
inline cudnnStatus_t queued(CUresult result) {
  return result == CUDA_SUCCESS ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_EXECUTION_FAILED;
}

}  // namespace facula::emulator
