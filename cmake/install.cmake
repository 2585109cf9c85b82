# SPDX-License-Identifier: MIT
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/ringplane)

install(TARGETS ringplane ringplane_static rpprogram EXPORT ringplaneTargets
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR}
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT ringplaneTargets NAMESPACE ringplane:: DESTINATION ${package_dir})

configure_package_config_file(cmake/ringplaneConfig.cmake.in
  ${PROJECT_BINARY_DIR}/ringplaneConfig.cmake INSTALL_DESTINATION ${package_dir}
  NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/ringplaneConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES
  ${PROJECT_BINARY_DIR}/ringplaneConfig.cmake
  ${PROJECT_BINARY_DIR}/ringplaneConfigVersion.cmake
  ${PROJECT_SOURCE_DIR}/cmake/ringplaneProgram.cmake
  DESTINATION ${package_dir})

# Relative to the file, so that an installed tree may be moved.
file(RELATIVE_PATH pc_prefix
  /root/${CMAKE_INSTALL_LIBDIR}/pkgconfig /root)
cmake_path(IS_ABSOLUTE CMAKE_INSTALL_LIBDIR absolute_libdir)
if(absolute_libdir)
  set(pc_prefix ${CMAKE_INSTALL_PREFIX})
  set(pc_libdir ${CMAKE_INSTALL_LIBDIR})
else()
  string(REGEX REPLACE "/$" "" pc_prefix "\${pcfiledir}/${pc_prefix}")
  set(pc_libdir "\${prefix}/${CMAKE_INSTALL_LIBDIR}")
endif()
cmake_path(IS_ABSOLUTE CMAKE_INSTALL_INCLUDEDIR absolute_includedir)
if(absolute_includedir)
  set(pc_includedir ${CMAKE_INSTALL_INCLUDEDIR})
else()
  set(pc_includedir "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
endif()
configure_file(cmake/ringplane.pc.in ${PROJECT_BINARY_DIR}/ringplane.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/ringplane.pc
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
