# find_package(Facula): the target Facula::facula, which is all that a program links. The file lies in facula/lib/cmake/Facula of the
# package; `python -c "import facula.utils; print(facula.utils.cmake_prefix_path)"` says where.

get_filename_component(FACULA_PACKAGE "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
set(Facula_INCLUDE_DIRS "${FACULA_PACKAGE}/include")
set(Facula_LIBRARIES Facula::facula)
if(NOT TARGET Facula::facula)
  add_library(Facula::facula SHARED IMPORTED)
  set_target_properties(Facula::facula PROPERTIES
    IMPORTED_LOCATION "${FACULA_PACKAGE}/lib/libfacula.so"
    IMPORTED_SONAME libfacula.so
    INTERFACE_INCLUDE_DIRECTORIES "${Facula_INCLUDE_DIRS}"
    INTERFACE_COMPILE_FEATURES cxx_std_20)
endif()
