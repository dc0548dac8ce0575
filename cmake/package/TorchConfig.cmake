# find_package(Torch) for programs that were written for libtorch: the target torch, and the variables TORCH_LIBRARIES, TORCH_INCLUDE_DIRS,
# TORCH_CXX_FLAGS and TORCH_INSTALL_PREFIX. The file lies where PyTorch has it, facula/share/cmake/Torch, apart from facula/lib/cmake:
# CMAKE_PREFIX_PATH is what facula.utils.cmake_prefix_path says.

get_filename_component(TORCH_INSTALL_PREFIX "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
include("${TORCH_INSTALL_PREFIX}/lib/cmake/Facula/FaculaConfig.cmake")
set(TORCH_INCLUDE_DIRS "${Facula_INCLUDE_DIRS}/compat" "${Facula_INCLUDE_DIRS}")
set(TORCH_CXX_FLAGS "")
set(TORCH_LIBRARY "${TORCH_INSTALL_PREFIX}/lib/libfacula.so")
set(TORCH_PYTHON_LIBRARY "${TORCH_LIBRARY}")  # extensions need no other library; who looks for one has found it
if(NOT TARGET torch)
  add_library(torch INTERFACE IMPORTED)
  set_target_properties(torch PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${TORCH_INCLUDE_DIRS}"
    INTERFACE_LINK_LIBRARIES Facula::facula)
  foreach(part torch_library torch_cpu c10)  # libtorch's other targets
    add_library(${part} INTERFACE IMPORTED)
    set_target_properties(${part} PROPERTIES INTERFACE_LINK_LIBRARIES torch)
  endforeach()
endif()
set(TORCH_LIBRARIES torch)
