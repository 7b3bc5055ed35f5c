# Everything from outside, in one place. Debian packages: packages.txt. Arrow's headers and
# libraries come inside the pyarrow wheel of the Python that CMake is pointed at.
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(Threads REQUIRED)
# Debian's RE2 has no CMake package of its own.
find_library(RE2_LIBRARY re2 REQUIRED)
if(PARAMEDIC_TESTS)
  find_package(GTest REQUIRED)
endif()

set(PARAMEDIC_PYTHON ${PROJECT_SOURCE_DIR}/.venv/bin/python CACHE FILEPATH
    "The Python whose pyarrow provides Arrow C++")
execute_process(
  COMMAND ${PARAMEDIC_PYTHON} -c
    "import pyarrow; print(pyarrow.get_include()); print(pyarrow.get_library_dirs()[0])"
  OUTPUT_VARIABLE arrow_dirs OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
string(REPLACE "\n" ";" arrow_dirs "${arrow_dirs}")
list(GET arrow_dirs 0 arrow_include)
list(GET arrow_dirs 1 arrow_library_dir)

# The wheel has no unversioned link names, so each library is imported by its real file.
function(paramedic_import_arrow name)
  file(GLOB file ${arrow_library_dir}/lib${name}.so.[0-9]*)
  list(LENGTH file count)
  if(NOT count EQUAL 1)
    message(FATAL_ERROR "expected one lib${name}.so.* in ${arrow_library_dir}, found: ${file}")
  endif()
  add_library(Arrow::${name} SHARED IMPORTED)
  set_target_properties(Arrow::${name} PROPERTIES
    IMPORTED_LOCATION ${file} INTERFACE_INCLUDE_DIRECTORIES ${arrow_include})
endfunction()
paramedic_import_arrow(arrow)
paramedic_import_arrow(parquet)
paramedic_import_arrow(arrow_flight)
add_library(Arrow::flight ALIAS Arrow::arrow_flight)
target_link_libraries(Arrow::parquet INTERFACE Arrow::arrow)
target_link_libraries(Arrow::arrow_flight INTERFACE Arrow::arrow)
