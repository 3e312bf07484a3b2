// A cubin is an ELF file of 64 bits. Section .nv.info.<kernel> lists attributes; that of a parameter (EIATTR_KPARAM_INFO,
// as `cuobjdump -elf` prints it) holds its number, its offset, and in the upper 14 bits of the last word its size.
#include "cubin.hpp"

#include <cstdint>
#include <cstring>

namespace portakern::cuda {

namespace {

constexpr std::uint8_t format_with_size = 4, parameter_attribute = 0x17;
constexpr std::size_t section_header_bytes = 64, parameter_bytes = 12;

// Bytes of a file that may be cut short: what lies outside reads as zero.
class Bytes {
  public:
    explicit Bytes(const std::string &image) : image_(image) {}

    template <typename T>
    T at(std::size_t offset) const {
        T value{};
        if (offset <= image_.size() && sizeof(T) <= image_.size() - offset) std::memcpy(&value, image_.data() + offset, sizeof(T));
        return value;
    }

    std::string text(std::size_t offset) const { return offset < image_.size() ? std::string(image_.c_str() + offset) : std::string(); }
    std::size_t size() const { return image_.size(); }

  private:
    const std::string &image_;
};

struct Section {
    std::size_t name, begin, bytes;
};

Section section(const Bytes &file, std::size_t number) {
    const std::size_t header = file.at<std::uint64_t>(0x28) + number * section_header_bytes;
    return {file.at<std::uint32_t>(header), static_cast<std::size_t>(file.at<std::uint64_t>(header + 0x18)),
            static_cast<std::size_t>(file.at<std::uint64_t>(header + 0x20))};
}

std::vector<std::size_t> parameters(const Bytes &file, const Section &info) {
    std::vector<std::size_t> sizes;
    const std::size_t end = info.begin + info.bytes;
    for (std::size_t at = info.begin; at + 4 <= end && at + 4 <= file.size();) {
        const bool sized = file.at<std::uint8_t>(at) == format_with_size;
        const std::size_t bytes = sized ? file.at<std::uint16_t>(at + 2) : 0;
        if (sized && file.at<std::uint8_t>(at + 1) == parameter_attribute && bytes == parameter_bytes) {
            const std::size_t number = file.at<std::uint16_t>(at + 8);
            if (sizes.size() <= number) sizes.resize(number + 1);
            sizes[number] = file.at<std::uint32_t>(at + 12) >> 18;
        }
        at += 4 + bytes;
    }
    return sizes;
}

}  // namespace

std::map<std::string, std::vector<std::size_t>> parameter_sizes(const std::string &image) {
    static const std::string magic = "\x7f" "ELF\x02", prefix = ".nv.info.";
    std::map<std::string, std::vector<std::size_t>> found;
    if (image.compare(0, magic.size(), magic) != 0) return found;
    const Bytes file(image);
    const std::size_t names = section(file, file.at<std::uint16_t>(0x3e)).begin;
    for (std::size_t i = 0; i < file.at<std::uint16_t>(0x3c); ++i) {
        const Section each = section(file, i);
        const std::string name = file.text(names + each.name);
        if (name.compare(0, prefix.size(), prefix) == 0) found[name.substr(prefix.size())] = parameters(file, each);
    }
    return found;
}

}  // namespace portakern::cuda
