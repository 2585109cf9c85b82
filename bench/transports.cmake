# SPDX-License-Identifier: MIT
# The programs of `rpbench peers`, each made where its library is installed. They are not
# part of rpbench, so that none of these libraries is loaded where ringplane is measured.
add_library(rpbench_transport OBJECT
  clock.c
  sysfile.c
  topology.c
  transport_main.c)
target_include_directories(rpbench_transport PUBLIC
  ${CMAKE_CURRENT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/dataplane
  ${PROJECT_SOURCE_DIR}/control ${PROJECT_SOURCE_DIR}/include)
target_link_libraries(rpbench_transport PUBLIC ringplane_flags)
set_target_properties(rpbench_transport PROPERTIES EXCLUDE_FROM_ALL ON)

# rpbench_add_transport(NAME MODULE): transport_NAME.c, with what pkg-config calls MODULE.
function(rpbench_add_transport name module)
  string(TOUPPER ${name} upper)
  # Their allocators and hooks and a sanitizer's are in each other's way.
  if(RINGPLANE_SANITIZE)
    return()
  endif()
  pkg_check_modules(${upper} QUIET ${module})
  if(NOT ${upper}_FOUND)
    message(STATUS "rpbench peers: without ${name}, ${module} is not installed")
    return()
  endif()
  add_executable(rpbench_${name} transport_${name}.c)
  target_include_directories(rpbench_${name} SYSTEM PRIVATE ${${upper}_INCLUDE_DIRS})
  target_link_directories(rpbench_${name} PRIVATE ${${upper}_LIBRARY_DIRS})
  target_link_libraries(rpbench_${name} PRIVATE
    rpbench_transport ringplane_static ${${upper}_LIBRARIES} m)
  target_compile_definitions(rpbench PRIVATE
    RPBENCH_${upper}="$<TARGET_FILE:rpbench_${name}>")
  add_dependencies(rpbench rpbench_${name})
endfunction()

rpbench_add_transport(ucx ucx)
rpbench_add_transport(zmq libzmq)
find_program(RPBENCH_MPIRUN mpirun)
mark_as_advanced(RPBENCH_MPIRUN)
if(RPBENCH_MPIRUN)
  rpbench_add_transport(mpi ompi-c)
endif()
