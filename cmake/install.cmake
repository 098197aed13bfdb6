# The library with its headers and CMake package, the program, and the recipes.
include(CMakePackageConfigHelpers)
set(TR_PACKAGE_FOLDER ${CMAKE_INSTALL_LIBDIR}/cmake/renaissance)

install(TARGETS renaissance EXPORT renaissance_targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS renaissance_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/renaissance DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h")
install(DIRECTORY ${PROJECT_SOURCE_DIR}/recipes DESTINATION ${CMAKE_INSTALL_DATADIR}/renaissance
        FILES_MATCHING PATTERN "*.yaml")

install(EXPORT renaissance_targets FILE renaissance-targets.cmake NAMESPACE renaissance::
        DESTINATION ${TR_PACKAGE_FOLDER})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/renaissance-config.cmake.in
                              ${PROJECT_BINARY_DIR}/renaissance-config.cmake
                              INSTALL_DESTINATION ${TR_PACKAGE_FOLDER})
# Before 1.0 a minor version may break what the one before offered.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/renaissance-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/renaissance-config.cmake
              ${PROJECT_BINARY_DIR}/renaissance-config-version.cmake
        DESTINATION ${TR_PACKAGE_FOLDER})
if(TR_CUDA)
  install(FILES ${PROJECT_SOURCE_DIR}/cmake/FindcuDNN.cmake DESTINATION ${TR_PACKAGE_FOLDER})
endif()
