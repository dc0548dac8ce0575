# find_package(Torch) for programs that were written for libtorch: the target torch, and the variables TORCH_LIBRARIES,
# TORCH_INCLUDE_DIRS, TORCH_CXX_FLAGS and TORCH_INSTALL_PREFIX. The file lies in a folder of its own, facula/share/compat/cmake/Torch, so
# that only who asks for it finds it: CMAKE_PREFIX_PATH is what facula.utils.torch_cmake_prefix_path says.

get_filename_component(TORCH_INSTALL_PREFIX "${CMAKE_CURRENT_LIST_DIR}/../../../.." ABSOLUTE)
include("${TORCH_INSTALL_PREFIX}/lib/cmake/Facula/FaculaConfig.cmake")
set(TORCH_INCLUDE_DIRS "${Facula_INCLUDE_DIRS}/compat" "${Facula_INCLUDE_DIRS}")
set(TORCH_CXX_FLAGS "")
set(TORCH_LIBRARY "${TORCH_INSTALL_PREFIX}/lib/libfacula.so")
if(NOT TARGET torch)
  add_library(torch INTERFACE IMPORTED)
  set_target_properties(torch PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${TORCH_INCLUDE_DIRS}"
    INTERFACE_LINK_LIBRARIES Facula::facula)
endif()
set(TORCH_LIBRARIES torch)
