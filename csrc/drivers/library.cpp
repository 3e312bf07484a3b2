#include "drivers/library.hpp"

#include <algorithm>
#include <cstring>

#ifdef _WIN32
#define WIN32_LEAN_AND_MEAN
#include <windows.h>
#else
#include <dlfcn.h>
#endif

namespace portakern {

namespace {

#ifdef _WIN32

void *open_library(const char *name, std::string *error) {
    HMODULE handle = LoadLibraryA(name);
    if (handle == nullptr) *error = std::string(name) + ": LoadLibrary error " + std::to_string(GetLastError());
    return handle;
}

void *find_symbol(void *handle, const char *symbol) {
    return reinterpret_cast<void *>(GetProcAddress(static_cast<HMODULE>(handle), symbol));
}

std::string file_of_symbol(void *, void *) { return {}; }

#else

void *open_library(const char *name, std::string *error) {
    void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
        const char *message = dlerror();
        *error = message != nullptr ? message : name;
    }
    return handle;
}

void *find_symbol(void *handle, const char *symbol) { return dlsym(handle, symbol); }

std::string file_of_symbol(void *, void *address) {
    Dl_info info{};
    if (address == nullptr || dladdr(address, &info) == 0 || info.dli_fname == nullptr) return {};
    return info.dli_fname;
}

#endif

}  // namespace

Library::Library(const char *path, std::initializer_list<const char *> names) {
    std::string first_error;
    auto attempt = [&](const char *name) {
        handle_ = open_library(name, &error_);
        if (handle_ != nullptr) {
            name_ = name;
            return true;
        }
        if (first_error.empty()) first_error = error_;
        return false;
    };
    if (path != nullptr) {
        attempt(path);
    } else {
        std::find_if(names.begin(), names.end(), attempt);
    }
    error_ = handle_ != nullptr ? std::string() : first_error;
}

void *Library::find(const char *symbol) const { return handle_ != nullptr ? find_symbol(handle_, symbol) : nullptr; }

std::string Library::file_of(const char *symbol) const {
    const std::string file = file_of_symbol(handle_, find(symbol));
    return file.empty() ? name_ : file;
}

void set_text(char *target, std::size_t size, const std::string &text) {
    const std::size_t length = std::min(text.size(), size - 1);
    std::memcpy(target, text.data(), length);
    target[length] = '\0';
}

bool open_for_probe(const Library &library, const char *symbol, pk_probe *out) {
    if (!library.is_open()) {
        set_text(out->error, library.error());
        return false;
    }
    set_text(out->path, library.file_of(symbol));
    if (library.function<void>(symbol) == nullptr) {
        set_text(out->error, std::string("the library has no ") + symbol);
        return false;
    }
    out->present = 1;
    return true;
}

}  // namespace portakern
