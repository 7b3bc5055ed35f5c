# paramedic_embed_data(TARGET paramedic_diagnose NAMESPACE diagnose FUNCTION signature_files
#                      FOLDER data/signatures)
#
# The *.toml files of a folder become part of a library: it gets a source that defines
#   std::span<const paramedic::EmbeddedFile> paramedic::NAMESPACE::FUNCTION()
# with the files sorted by name. The library declares that function in a header of its own.
# A changed file rebuilds the source; a new or removed one runs CMake again.
set(PARAMEDIC_EMBED_SCRIPT ${CMAKE_CURRENT_LIST_DIR}/embed_script.cmake)

function(paramedic_embed_data)
  cmake_parse_arguments(ARG "" "TARGET;NAMESPACE;FUNCTION;FOLDER" "" ${ARGN})
  if(ARG_UNPARSED_ARGUMENTS OR NOT ARG_TARGET OR NOT ARG_FUNCTION OR NOT ARG_FOLDER)
    message(FATAL_ERROR "paramedic_embed_data(${ARGV}): wrong arguments")
  endif()
  set(folder ${PROJECT_SOURCE_DIR}/${ARG_FOLDER})
  file(GLOB files CONFIGURE_DEPENDS ${folder}/*.toml)
  set(source ${CMAKE_CURRENT_BINARY_DIR}/${ARG_FUNCTION}.cc)
  add_custom_command(
    OUTPUT ${source}
    COMMAND ${CMAKE_COMMAND} -DFOLDER=${folder} -DNAMESPACE=${ARG_NAMESPACE}
            -DFUNCTION=${ARG_FUNCTION} -DSOURCE=${source} -P ${PARAMEDIC_EMBED_SCRIPT}
    DEPENDS ${files} ${PARAMEDIC_EMBED_SCRIPT}
    VERBATIM)
  target_sources(${ARG_TARGET} PRIVATE ${source})
endfunction()
