// Reads lines "SEED SKIP COUNT exact" or "... mod N" and writes the outputs of a generator of a C++ library, a line each:
// minstd-rand0, minstd-rand and lcg:1664525,... of the standard library, pcg32 and pcg32-54 of pcg-cpp, philox4x32-10
// of Random123.
#include <Random123/philox.h>
#include <cstdint>
#include <functional>
#include <iostream>
#include <pcg_random.hpp>
#include <random>
#include <sstream>
#include <string>

using Next = std::function<uint64_t()>;

template <class Engine> Next of(Engine engine)
{
    return [engine]() mutable -> uint64_t { return engine(); };
}

Next philox(uint64_t seed)
{
    r123::Philox4x32::key_type key = {{uint32_t(seed), uint32_t(seed >> 32)}};
    uint64_t position = 0;
    return [=]() mutable -> uint64_t {
        r123::Philox4x32::ctr_type counter = {{uint32_t(position >> 2), uint32_t(position >> 34), 0, 0}};
        return r123::Philox4x32()(counter, key)[position++ & 3];
    };
}

Next generator(const std::string &name, uint64_t seed)
{
    if (name == "minstd-rand0")
        return of(std::minstd_rand0(seed));
    if (name == "minstd-rand")
        return of(std::minstd_rand(seed));
    if (name == "pcg32")
        return of(pcg32(seed));
    if (name == "pcg32-54")
        return of(pcg32(seed, 54));
    if (name == "philox4x32-10")
        return philox(seed);
    return of(std::linear_congruential_engine<uint32_t, 1664525, 1013904223, 0>(seed));
}

int main(int argc, char **argv)
{
    const std::string name = argc > 1 ? argv[1] : "";
    if (name == "--version") {
        std::cout << "libstdc++ of GCC " << __VERSION__ << ", pcg-cpp 0.98.1, Random123 1.14.0\n";
        return 0;
    }
    for (std::string line; std::getline(std::cin, line);) {
        std::istringstream job(line);
        uint64_t seed, skip, count, modulus = 0;
        std::string kind;
        job >> seed >> skip >> count >> kind >> modulus;
        Next next = generator(name, seed);
        for (uint64_t i = 0; i < skip + count; i++) {
            uint64_t made = next();
            if (i >= skip)
                std::cout << (i > skip ? " " : "") << (kind == "mod" ? made % modulus : made);
        }
        std::cout << "\n";
    }
}
