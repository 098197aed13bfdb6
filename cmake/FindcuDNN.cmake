# cuDNN as the target cuDNN::cudnn; cuDNN_VERSION. It comes without a CMake package. Looked for beside the CUDA
# toolkit too (find_package(CUDAToolkit) first); cuDNN_ROOT points elsewhere.
find_path(cuDNN_INCLUDE_DIR cudnn_graph.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
find_library(cuDNN_LIBRARY cudnn HINTS ${CUDAToolkit_LIBRARY_DIR} ${CUDAToolkit_LIBRARY_ROOT}/lib)
mark_as_advanced(cuDNN_INCLUDE_DIR cuDNN_LIBRARY)

if(EXISTS "${cuDNN_INCLUDE_DIR}/cudnn_version.h")
  file(STRINGS "${cuDNN_INCLUDE_DIR}/cudnn_version.h" cuDNN_VERSION_LINES
       REGEX "^#define CUDNN_(MAJOR|MINOR|PATCHLEVEL) [0-9]+")
  string(REGEX REPLACE "[^0-9;]" "" cuDNN_VERSION_NUMBERS "${cuDNN_VERSION_LINES}")
  list(JOIN cuDNN_VERSION_NUMBERS "." cuDNN_VERSION)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(cuDNN REQUIRED_VARS cuDNN_LIBRARY cuDNN_INCLUDE_DIR
                                  VERSION_VAR cuDNN_VERSION)
if(cuDNN_FOUND AND NOT TARGET cuDNN::cudnn)
  add_library(cuDNN::cudnn UNKNOWN IMPORTED)
  set_target_properties(cuDNN::cudnn PROPERTIES IMPORTED_LOCATION "${cuDNN_LIBRARY}"
                        INTERFACE_INCLUDE_DIRECTORIES "${cuDNN_INCLUDE_DIR}")
endif()
