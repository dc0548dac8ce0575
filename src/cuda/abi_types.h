// Declares types of elements, as NVIDIA's libraries name them (.ci/check_abi.py compares them with NVIDIA's headers).
#pragma once

enum cudaDataType : int {
  CUDA_R_32F = 0,
  CUDA_R_64F = 1,
  CUDA_R_16F = 2,
  CUDA_C_32F = 4,
  CUDA_C_64F = 5,
  CUDA_C_16F = 6,
  CUDA_R_16BF = 14,
};
