# SPDX-License-Identifier: MIT
# One list of sources makes three libraries: ringplane (shared), ringplane_static,
# and ringplane_testing, which has fault hooks and assertions and is not installed.
set(burst_source ${PROJECT_SOURCE_DIR}/dataplane/ring/burst.c)
list(REMOVE_ITEM RINGPLANE_DATAPLANE_SOURCES ${burst_source})

# Position-independent throughout: the objects serve both libraries.
function(ringplane_objects name)
  add_library(${name}_burst OBJECT ${burst_source})
  target_include_directories(${name}_burst SYSTEM PRIVATE ${RINGPLANE_DPDK_INCLUDES})
  # rte_ring reads elements through other types than they were written with.
  target_compile_options(${name}_burst PRIVATE -fno-strict-aliasing -fno-lto)
  if(RINGPLANE_SANITIZE MATCHES "thread")
    target_compile_definitions(${name}_burst PRIVATE RTE_USE_C11_MEM_MODEL)
  endif()
  add_library(${name} OBJECT ${RINGPLANE_DATAPLANE_SOURCES} ${RINGPLANE_CONTROL_SOURCES})
  target_link_libraries(${name} PRIVATE PkgConfig::LIBURING)
  foreach(target ${name} ${name}_burst)
    set_target_properties(${target} PROPERTIES
      POSITION_INDEPENDENT_CODE ON C_VISIBILITY_PRESET hidden)
    target_include_directories(${target} PRIVATE
      ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/dataplane
      ${PROJECT_SOURCE_DIR}/control)
    target_link_libraries(${target} PRIVATE ringplane_flags)
  endforeach()
endfunction()

function(ringplane_public target)
  target_include_directories(${target} INTERFACE
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(${target} PRIVATE
    PkgConfig::LIBURING Threads::Threads ${HUGETLBFS_LIBRARY} m)
  if(RINGPLANE_SANITIZE)
    target_link_options(${target} PUBLIC -fsanitize=${RINGPLANE_SANITIZE})
  endif()
endfunction()

ringplane_objects(ringplane_objs)

add_library(ringplane SHARED
  $<TARGET_OBJECTS:ringplane_objs> $<TARGET_OBJECTS:ringplane_objs_burst>)
add_library(ringplane::ringplane ALIAS ringplane)
set_target_properties(ringplane PROPERTIES
  VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
  LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/ringplane.map)
target_link_options(ringplane PRIVATE
  -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/ringplane.map)
if(NOT RINGPLANE_SANITIZE)
  target_link_options(ringplane PRIVATE -Wl,--no-undefined)
endif()
ringplane_public(ringplane)

add_library(ringplane_static STATIC
  $<TARGET_OBJECTS:ringplane_objs> $<TARGET_OBJECTS:ringplane_objs_burst>)
add_library(ringplane::ringplane_static ALIAS ringplane_static)
set_target_properties(ringplane_static PROPERTIES OUTPUT_NAME ringplane)
ringplane_public(ringplane_static)

if(RINGPLANE_TESTS)
  ringplane_objects(ringplane_testing_objs)
  foreach(target ringplane_testing_objs ringplane_testing_objs_burst)
    target_compile_definitions(${target} PRIVATE RPI_TESTING=1)
    target_compile_options(${target} PRIVATE -UNDEBUG)
  endforeach()
  add_library(ringplane_testing STATIC
    $<TARGET_OBJECTS:ringplane_testing_objs> $<TARGET_OBJECTS:ringplane_testing_objs_burst>)
  ringplane_public(ringplane_testing)
endif()
