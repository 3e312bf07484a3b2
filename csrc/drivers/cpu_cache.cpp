#include "drivers/cpu_cache.hpp"

#include <filesystem>
#include <fstream>
#include <map>
#include <string>

namespace portakern {

namespace {

namespace fs = std::filesystem;

std::string line(const fs::path &file) {
    std::ifstream stream(file);
    std::string text;
    std::getline(stream, text);
    return text;
}

// "32768K"; 0 for what is no size.
std::int64_t bytes_of(const std::string &text) {
    std::size_t end = 0;
    std::int64_t number = 0;
    try {
        number = std::stoll(text, &end);
    } catch (const std::exception &) {
        return 0;
    }
    const char unit = end < text.size() ? text[end] : '\0';
    return number * (unit == 'K' ? 1 << 10 : unit == 'M' ? 1 << 20 : unit == 'G' ? 1 << 30 : 1);
}

}  // namespace

std::int64_t last_level_cache_bytes() {
    // Linux lists a cache once for each processor that shares it: those with the same sharers are one.
    int deepest = 0;
    std::map<std::string, std::int64_t> instances;
    std::error_code error;
    for (const auto &cpu : fs::directory_iterator("/sys/devices/system/cpu", error)) {
        const fs::path caches = cpu.path() / "cache";
        if (!fs::is_directory(caches, error)) continue;
        for (const auto &cache : fs::directory_iterator(caches, error)) {
            const std::int64_t level = bytes_of(line(cache.path() / "level"));
            if (level == 0 || level < deepest || line(cache.path() / "type") == "Instruction") continue;
            if (level > deepest) instances.clear();
            deepest = static_cast<int>(level);
            instances[line(cache.path() / "shared_cpu_list")] = bytes_of(line(cache.path() / "size"));
        }
    }
    std::int64_t total = 0;
    for (const auto &[sharers, bytes] : instances) total += bytes;
    return total;
}

}  // namespace portakern
