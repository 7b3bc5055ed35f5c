# Writes the source that paramedic_embed_data promises; runs at build time.
file(GLOB files ${FOLDER}/*.toml)
list(SORT files)
set(entries "")
foreach(file IN LISTS files)
  get_filename_component(name ${file} NAME)
  file(READ ${file} text)
  if(text MATCHES "\\)paramedic\"")
    message(FATAL_ERROR "${file} holds the mark that ends an embedded text: )paramedic\"")
  endif()
  string(APPEND entries "    {\"${name}\", R\"paramedic(${text})paramedic\"},\n")
endforeach()
list(LENGTH files count)
if(count EQUAL 0)
  message(FATAL_ERROR "${FOLDER} holds no *.toml file")
endif()
file(WRITE ${SOURCE}
"// Made by cmake/embed_script.cmake from ${FOLDER}: not to be edited.
#include <array>
#include <span>

#include \"base/embedded_file.h\"

namespace paramedic::${NAMESPACE} {

std::span<const EmbeddedFile> ${FUNCTION}();
std::span<const EmbeddedFile> ${FUNCTION}() {
  static constexpr std::array<EmbeddedFile, ${count}> kFiles{{
${entries}  }};
  return kFiles;
}

}  // namespace paramedic::${NAMESPACE}
")
