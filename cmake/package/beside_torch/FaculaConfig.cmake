# find_package(Facula) for builds whose prefix is facula/share/cmake, where find_package(Torch) is found too.

include("${CMAKE_CURRENT_LIST_DIR}/../../../lib/cmake/Facula/FaculaConfig.cmake")
