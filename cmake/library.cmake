# SPDX-License-Identifier: MIT
# One list of sources makes three libraries: ringplane (shared), ringplane_static,
# and ringplane_testing, which has fault hooks and assertions and is not installed.
# RINGPLANE_FAST names the objects of the shared one, which rpbench links as they are.
set(RINGPLANE_SOURCES ${RINGPLANE_DATAPLANE_SOURCES} ${RINGPLANE_CONTROL_SOURCES})
set(burst_source ${PROJECT_SOURCE_DIR}/dataplane/ring/burst.c)

# For the linters.
list(JOIN RINGPLANE_SOURCES "\n" lines)
file(WRITE ${PROJECT_BINARY_DIR}/library-sources.txt "${lines}\n")

# Position-independent throughout: the objects may serve both libraries.
function(ringplane_objects name)
  set(sources ${RINGPLANE_SOURCES})
  list(REMOVE_ITEM sources ${burst_source})
  add_library(${name} OBJECT ${sources})
  target_include_directories(${name} SYSTEM PRIVATE ${HUGETLBFS_INCLUDE_DIR})
  target_link_libraries(${name} PRIVATE PkgConfig::LIBURING PkgConfig::JANSSON)

  # The only source that sees DPDK's headers. rte_ring reads elements through other
  # types than they were written with.
  add_library(${name}_burst OBJECT ${burst_source})
  target_include_directories(${name}_burst SYSTEM PRIVATE ${RINGPLANE_DPDK_INCLUDES})
  target_compile_options(${name}_burst PRIVATE -fno-strict-aliasing -fno-lto)
  if(RINGPLANE_SANITIZE STREQUAL "thread")
    target_compile_definitions(${name}_burst PRIVATE RTE_USE_C11_MEM_MODEL)
  endif()

  foreach(target ${name} ${name}_burst)
    set_target_properties(${target} PROPERTIES
      POSITION_INDEPENDENT_CODE ON C_VISIBILITY_PRESET hidden)
    target_include_directories(${target} PRIVATE
      ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/dataplane
      ${PROJECT_SOURCE_DIR}/control)
    target_link_libraries(${target} PRIVATE ringplane_flags)
  endforeach()
endfunction()

# What a user of the library gets from it.
function(ringplane_public target)
  target_include_directories(${target} INTERFACE
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(${target} PRIVATE
    PkgConfig::LIBURING PkgConfig::JANSSON Threads::Threads m ${CMAKE_DL_LIBS}
    $<BUILD_INTERFACE:${HUGETLBFS_LIBRARY}> $<INSTALL_INTERFACE:hugetlbfs>)
  if(RINGPLANE_SANITIZE)
    target_link_options(${target} PUBLIC -fsanitize=${RINGPLANE_SANITIZE})
  endif()
endfunction()

ringplane_objects(ringplane_objs)

# Optimising across files makes a dispatch 10 % faster, for the shared library and for
# rpbench. The static library stays without: what any compiler and linker can read, where
# the plugin of another gcc refuses even -ffat-lto-objects. burst.c keeps its own flags.
set(RINGPLANE_FAST ringplane_objs)
if(RINGPLANE_LTO_USED)
  set(RINGPLANE_FAST ringplane_lto_objs)
  ringplane_objects(ringplane_lto_objs)
  set_target_properties(ringplane_lto_objs PROPERTIES INTERPROCEDURAL_OPTIMIZATION ON)
endif()

add_library(ringplane SHARED
  $<TARGET_OBJECTS:${RINGPLANE_FAST}> $<TARGET_OBJECTS:${RINGPLANE_FAST}_burst>)
add_library(ringplane::ringplane ALIAS ringplane)
set_target_properties(ringplane PROPERTIES
  VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
  INTERPROCEDURAL_OPTIMIZATION ${RINGPLANE_LTO_USED}
  LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/ringplane.map)
target_link_options(ringplane PRIVATE
  -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/ringplane.map)
if(NOT RINGPLANE_SANITIZE)
  target_link_options(ringplane PRIVATE -Wl,--no-undefined)
endif()
ringplane_public(ringplane)
target_sources(ringplane PUBLIC FILE_SET HEADERS
  BASE_DIRS ${PROJECT_SOURCE_DIR}/include FILES ${RINGPLANE_PUBLIC_HEADERS})

add_library(ringplane_static STATIC
  $<TARGET_OBJECTS:ringplane_objs> $<TARGET_OBJECTS:ringplane_objs_burst>)
add_library(ringplane::ringplane_static ALIAS ringplane_static)
set_target_properties(ringplane_static PROPERTIES OUTPUT_NAME ringplane)
ringplane_public(ringplane_static)

# What ringplane_add_program() runs. Beside the library, wherever that is moved.
add_executable(rpprogram cmake/rpprogram.c)
add_executable(ringplane::rpprogram ALIAS rpprogram)
target_link_libraries(rpprogram PRIVATE ringplane ringplane_flags)
file(RELATIVE_PATH rpprogram_to_library
  /root/${CMAKE_INSTALL_BINDIR} /root/${CMAKE_INSTALL_LIBDIR})
set_target_properties(rpprogram PROPERTIES
  INSTALL_RPATH "$ORIGIN/${rpprogram_to_library}")

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
