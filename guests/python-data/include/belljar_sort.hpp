// Which of numpy's types the sorts of ../kernels know. Others, and few numbers, stay numpy's.
#ifndef BELLJAR_SORT_HPP
#define BELLJAR_SORT_HPP

#include <type_traits>

#include "belljar_kernels.h"

namespace belljar {

constexpr npy_intp WORTH_WHILE = 200;

template <typename Tag>
constexpr bool is_whole = std::is_base_of_v<npy::integral_tag, Tag>;

// The two zeros are equal, so a stable sort may not put one before the other.
template <typename Tag, bool stable = false, typename T>
bool sort(T *numbers, npy_intp n) {
    if (n < WORTH_WHILE) return false;
    size_t count = static_cast<size_t>(n);
    if constexpr (is_whole<Tag> && sizeof(T) == 8) {
        if constexpr (std::is_signed_v<T>) return belljar_sort_i64(reinterpret_cast<int64_t *>(numbers), count);
        else return belljar_sort_u64(reinterpret_cast<uint64_t *>(numbers), count);
    } else if constexpr (is_whole<Tag> && sizeof(T) == 4) {
        if constexpr (std::is_signed_v<T>) return belljar_sort_i32(reinterpret_cast<int32_t *>(numbers), count);
        else return belljar_sort_u32(reinterpret_cast<uint32_t *>(numbers), count);
    } else if constexpr (std::is_same_v<Tag, npy::double_tag> && !stable) {
        return belljar_sort_f64(reinterpret_cast<double *>(numbers), count);
    } else if constexpr (std::is_same_v<Tag, npy::float_tag> && !stable) {
        return belljar_sort_f32(reinterpret_cast<float *>(numbers), count);
    } else {
        return false;
    }
}

template <typename Tag, typename T>
bool argsort(const T *from, npy_intp *order, npy_intp n) {
    static_assert(sizeof(npy_intp) == sizeof(uint32_t));
    if (n < WORTH_WHILE) return false;
    size_t count = static_cast<size_t>(n);
    uint32_t *places = reinterpret_cast<uint32_t *>(order);
    if constexpr (is_whole<Tag> && sizeof(T) == 8) {
        if constexpr (std::is_signed_v<T>) return belljar_argsort_i64(reinterpret_cast<const int64_t *>(from), places, count);
        else return belljar_argsort_u64(reinterpret_cast<const uint64_t *>(from), places, count);
    } else if constexpr (is_whole<Tag> && sizeof(T) == 4) {
        if constexpr (std::is_signed_v<T>) return belljar_argsort_i32(reinterpret_cast<const int32_t *>(from), places, count);
        else return belljar_argsort_u32(reinterpret_cast<const uint32_t *>(from), places, count);
    } else if constexpr (std::is_same_v<Tag, npy::double_tag>) {
        return belljar_argsort_f64(reinterpret_cast<const double *>(from), places, count);
    } else if constexpr (std::is_same_v<Tag, npy::float_tag>) {
        return belljar_argsort_f32(reinterpret_cast<const float *>(from), places, count);
    } else {
        return false;
    }
}

}  // namespace belljar

#endif
