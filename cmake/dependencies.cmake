# SPDX-License-Identifier: MIT
find_package(PkgConfig REQUIRED)
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
pkg_check_modules(LIBURING REQUIRED IMPORTED_TARGET liburing)
# Manifests of artifacts.
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)
find_library(HUGETLBFS_LIBRARY hugetlbfs REQUIRED)
find_path(HUGETLBFS_INCLUDE_DIR hugetlbfs.h REQUIRED)
mark_as_advanced(HUGETLBFS_LIBRARY HUGETLBFS_INCLUDE_DIR)

# Of DPDK only the inline headers of rte_ring are used, by one source. Its
# pkg-config file forces an -march and an include that nothing else may see: take
# the include directories alone.
pkg_check_modules(DPDK REQUIRED libdpdk)
set(RINGPLANE_DPDK_INCLUDES)
foreach(flag IN LISTS DPDK_CFLAGS)
  if(flag MATCHES "^-I(.+)$")
    list(APPEND RINGPLANE_DPDK_INCLUDES ${CMAKE_MATCH_1})
  endif()
endforeach()
list(APPEND RINGPLANE_DPDK_INCLUDES ${DPDK_INCLUDE_DIRS})
list(REMOVE_DUPLICATES RINGPLANE_DPDK_INCLUDES)

if(RINGPLANE_TESTS)
  pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)
endif()
if(RINGPLANE_EXAMPLES)
  pkg_check_modules(EXAMPLE_LIBRARIES REQUIRED IMPORTED_TARGET popt)
endif()
if(RINGPLANE_BENCH)
  pkg_check_modules(BENCH_LIBRARIES REQUIRED IMPORTED_TARGET jansson popt gsl)
endif()
