# find_package(numapilot_alloc) defines the target numapilot::alloc.
if(NOT TARGET numapilot::alloc)
    # This file is in PREFIX/lib/cmake/numapilot_alloc, wherever PREFIX lies. CMake may have found it
    # through a link such as /lib.
    get_filename_component(numapilot_prefix "${CMAKE_CURRENT_LIST_DIR}" REALPATH)
    get_filename_component(numapilot_prefix "${numapilot_prefix}/../../.." ABSOLUTE)
    add_library(numapilot::alloc SHARED IMPORTED)
    set_target_properties(numapilot::alloc PROPERTIES
        IMPORTED_LOCATION "${numapilot_prefix}/lib/numapilot/libnumapilot_alloc.so"
        IMPORTED_NO_SONAME ON
        INTERFACE_INCLUDE_DIRECTORIES "${numapilot_prefix}/include")
    unset(numapilot_prefix)
endif()
