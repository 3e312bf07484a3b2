#include "hip_sysfs.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

namespace portakern::hip {

namespace {

namespace fs = std::filesystem;

fs::path root() {
    const char *elsewhere = std::getenv("PORTAKERN_SYSFS");
    return elsewhere != nullptr && elsewhere[0] != '\0' ? elsewhere : "/sys";
}

// A file of lines "name number".
std::map<std::string, std::int64_t> figures(const fs::path &file) {
    std::map<std::string, std::int64_t> found;
    std::ifstream stream(file);
    std::string name;
    std::int64_t number = 0;
    while (stream >> name >> number) found[name] = number;
    return found;
}

std::int64_t number_in(const fs::path &file, std::int64_t otherwise) {
    std::ifstream stream(file);
    std::int64_t number = 0;
    return stream >> number ? number : otherwise;
}

std::string word_in(const fs::path &file) {
    std::ifstream stream(file);
    std::string word;
    stream >> word;
    return word;
}

// The topology's form of a PCI address: the domain, and bus, device and function as one number.
bool parse(const std::string &pci, std::int64_t *domain, std::int64_t *location) {
    unsigned parts[4] = {};
    if (std::sscanf(pci.c_str(), "%x:%x:%x.%x", &parts[0], &parts[1], &parts[2], &parts[3]) != 4) return false;
    *domain = parts[0];
    *location = parts[1] << 8 | parts[2] << 3 | parts[3];
    return true;
}

std::int64_t deepest(const fs::path &caches) {
    std::int64_t level = 0, bytes = 0;
    std::error_code error;
    for (const auto &cache : fs::directory_iterator(caches, error)) {
        const auto told = figures(cache.path() / "properties");
        const auto of = told.find("level"), size = told.find("size");
        if (of == told.end() || size == told.end() || of->second < level) continue;
        if (of->second > level) bytes = 0;
        level = of->second;
        bytes = std::max(bytes, size->second * 1024);
    }
    return bytes;
}

// The input whose label is one of these, the earlier the better.
std::int64_t labelled(const fs::path &sensors, const std::string &kind, std::initializer_list<const char *> labels) {
    for (const char *label : labels) {
        for (int i = 1; i <= 8; ++i) {
            const std::string stem = kind + std::to_string(i);
            if (word_in(sensors / (stem + "_label")) == label) return number_in(sensors / (stem + "_input"), -1);
        }
    }
    return -1;
}

}  // namespace

std::int64_t deepest_cache_bytes(const std::string &pci) {
    std::int64_t domain = 0, location = 0;
    if (!parse(pci, &domain, &location)) return 0;
    std::error_code error;
    for (const auto &node : fs::directory_iterator(root() / "class/kfd/kfd/topology/nodes", error)) {
        auto told = figures(node.path() / "properties");
        if (told["simd_count"] > 0 && told["domain"] == domain && told["location_id"] == location) {
            return deepest(node.path() / "caches");
        }
    }
    return 0;
}

void read_sensors(const std::string &pci, pk_health *out) {
    std::string lower = pci;
    std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
    std::error_code error;
    for (const auto &sensors : fs::directory_iterator(root() / "bus/pci/devices" / lower / "hwmon", error)) {
        const std::int64_t clock = labelled(sensors, "freq", {"sclk"}), memory = labelled(sensors, "freq", {"mclk"});
        const std::int64_t temperature = labelled(sensors, "temp", {"junction", "edge"});
        const std::int64_t power =
            number_in(sensors.path() / "power1_average", number_in(sensors.path() / "power1_input", -1));
        if (clock >= 0) out->clock_mhz = static_cast<std::int32_t>(clock / 1'000'000);
        if (memory >= 0) out->memory_clock_mhz = static_cast<std::int32_t>(memory / 1'000'000);
        if (temperature >= 0) out->temperature_c = static_cast<std::int32_t>(temperature / 1000);
        if (power >= 0) out->power_mw = static_cast<std::int32_t>(power / 1000);
    }
}

}  // namespace portakern::hip
