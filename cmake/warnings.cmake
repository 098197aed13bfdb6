# Flags of our own code, never of a consumer's.
function(tr_compile_options target)
  set(warnings
      -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor
      -Wno-missing-field-initializers
      -Wno-unknown-pragmas  # a build without the CPU backend has no OpenMP
      -Werror)
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    # GCC 12 sees the first in "literal" + std::string (GCC bug 105651), GCC 13 the others in
    # std::vector<Use>::insert (GCC bugs 107852, 110498).
    list(APPEND warnings -Wno-restrict -Wno-array-bounds -Wno-stringop-overflow)
  endif()
  if(TR_NATIVE)
    list(APPEND warnings -march=native)
  endif()
  # nvcc's own intermediate code does not pass these: it gets its own.
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${warnings}>"
    "$<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings;--expt-relaxed-constexpr;-Xcompiler=-Wall>")
  if(TR_SANITIZE)
    target_compile_options(${target} PRIVATE
      "$<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${TR_SANITIZE};-fno-sanitize-recover=all;-fno-omit-frame-pointer>")
    target_link_options(${target} PUBLIC -fsanitize=${TR_SANITIZE})
  endif()
endfunction()
