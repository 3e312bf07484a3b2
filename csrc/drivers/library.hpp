// A vendor's shared library, opened at run time.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>

#include "portakern/driver.h"

namespace portakern {

// Once opened it stays loaded: such libraries start threads and install exit handlers, and unloading one that was
// initialised can crash the process.
class Library {
  public:
    // Opens `path` if given, else the first of `names` that the loader finds. Not finding one is not an error here.
    Library(const char *path, std::initializer_list<const char *> names);

    bool is_open() const { return handle_ != nullptr; }

    // The loader's message; empty when open.
    const std::string &error() const { return error_; }

    // The function of that name, or null.
    template <typename Function>
    Function *function(const char *symbol) const {
        return reinterpret_cast<Function *>(find(symbol));
    }

    // The file that `symbol` came from, or the name that was opened.
    std::string file_of(const char *symbol) const;

  private:
    void *find(const char *symbol) const;

    void *handle_ = nullptr;
    std::string name_;
    std::string error_;
};

// Copies with truncation; `target` is always terminated.
void set_text(char *target, std::size_t size, const std::string &text);

template <std::size_t N>
void set_text(char (&target)[N], const std::string &text) {
    set_text(target, N, text);
}

// What every probe begins with: says in `out` whether the library is there and where. False ends the probe.
bool open_for_probe(const Library &library, const char *symbol, pk_probe *out);

}  // namespace portakern
