# tr_embed_text(target HEADER NAME=file …): writes a source of `target` that defines the std::string_views which
# HEADER declares in namespace tr, each with the text of a file of the current folder. Editing a file is
# enough: the build configures itself again.
function(tr_embed_text target header)
  set(TR_EMBEDDED "")
  foreach(pair ${ARGN})
    string(REGEX MATCH "^([^=]+)=(.+)$" found ${pair})
    set(name ${CMAKE_MATCH_1})
    set(file ${CMAKE_CURRENT_SOURCE_DIR}/${CMAKE_MATCH_2})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    file(READ ${file} text)
    string(APPEND TR_EMBEDDED "const std::string_view ${name} = R\"embedded(${text})embedded\";\n")
  endforeach()
  cmake_path(GET header STEM stem)
  set(output ${CMAKE_CURRENT_BINARY_DIR}/${stem}_text.cpp)
  file(CONFIGURE OUTPUT ${output} @ONLY
       CONTENT "#include \"${header}\"\n\nnamespace tr {\n\n@TR_EMBEDDED@\n}  // namespace tr\n")
  target_sources(${target} PRIVATE ${output})
endfunction()
