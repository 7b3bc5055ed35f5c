# Flags of every target of the project live in this one interface target.
add_library(paramedic_flags INTERFACE)
target_include_directories(paramedic_flags INTERFACE ${PROJECT_SOURCE_DIR}/src)
target_compile_options(paramedic_flags INTERFACE
  -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Werror
  # g++ 12 reports it falsely for `"text" + std::string` at -O3 (GCC bug 105651).
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
  $<$<NOT:$<CONFIG:Release>>:-D_GLIBCXX_ASSERTIONS>)
if(PARAMEDIC_SANITIZE)
  target_compile_options(paramedic_flags INTERFACE
    -fsanitize=${PARAMEDIC_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(paramedic_flags INTERFACE -fsanitize=${PARAMEDIC_SANITIZE})
endif()

# paramedic_module(NAME stats DEPS base LIBS hwy SOURCES a.cc TESTS a_test.cc HEADERS a.h)
#
# One folder = one static library paramedic_NAME = one test binary NAME_test. DEPS are the only
# folders of src/ whose headers this one may include: tools/tidy.py reads them from here.
# LIBS are libraries from outside.
function(paramedic_module)
  cmake_parse_arguments(ARG "" "NAME" "DEPS;LIBS;HEADERS;SOURCES;TESTS;TEST_LIBS" ${ARGN})
  if(ARG_UNPARSED_ARGUMENTS OR NOT ARG_NAME OR NOT ARG_SOURCES)
    message(FATAL_ERROR "paramedic_module(${ARG_NAME}): wrong arguments ${ARG_UNPARSED_ARGUMENTS}")
  endif()
  set(target paramedic_${ARG_NAME})
  add_library(${target} STATIC ${ARG_SOURCES} ${ARG_HEADERS})
  target_link_libraries(${target} PUBLIC paramedic_flags ${ARG_LIBS})
  foreach(dep IN LISTS ARG_DEPS)
    target_link_libraries(${target} PUBLIC paramedic_${dep})
  endforeach()
  if(PARAMEDIC_TESTS AND ARG_TESTS)
    add_executable(${ARG_NAME}_test ${ARG_TESTS})
    target_link_libraries(${ARG_NAME}_test PRIVATE ${target} ${ARG_TEST_LIBS} GTest::gtest_main)
    set_target_properties(${ARG_NAME}_test PROPERTIES
      RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
    target_compile_definitions(${ARG_NAME}_test PRIVATE
      PARAMEDIC_SOURCE_DIR="${PROJECT_SOURCE_DIR}" PARAMEDIC_BUILD_DIR="${PROJECT_BINARY_DIR}")
  endif()
endfunction()
