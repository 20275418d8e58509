// An extension as users of nanobind write it: it takes arrays under each kind of annotation, and makes some of its own.

#include <vector>

#include "nb_combined.cpp" // nanobind's own sources: one call of the compiler

namespace nb = nanobind;

// An array that was taken. It holds the producer's object until it goes.
struct Taken {
    nb::ndarray<nb::ro> array;

    size_t address() const
    {
        return (size_t)array.data();
    }
    nb::tuple dtype() const
    {
        return nb::make_tuple((int)array.dtype().code, array.dtype().bits, array.dtype().lanes);
    }
    nb::list shape() const
    {
        nb::list extents;
        for (size_t i = 0; i < array.ndim(); i++)
            extents.append(array.shape(i));
        return extents;
    }
    nb::list strides() const
    {
        nb::list elements;
        for (size_t i = 0; i < array.ndim(); i++)
            elements.append(array.stride(i));
        return elements;
    }
};

template <typename... Annotations> void def(nb::module_ &module, const char *name)
{
    module.def(name, [](nb::ndarray<Annotations...> array) {
        if (array.dtype().bits % 8) // an ndarray does not tell padded items from packed ones
            throw nb::type_error("this test reads items of whole bytes alone");
        return Taken{nb::ndarray<nb::ro>(array)};
    });
}

static int alive = 0; // memories of make that are still held

template <typename... Annotations> nb::object make()
{
    float *items = new float[6]{0, 1, 2, 3, 4, 5};
    alive++;
    nb::capsule owner(items, [](void *memory) noexcept {
        delete[] (float *)memory;
        alive--;
    });
    return nb::cast(nb::ndarray<float, Annotations...>(items, {2, 3}, owner));
}

// An ndarray of the memory of one that was taken.
template <typename... Annotations> nb::object share(nb::ndarray<Annotations...> array)
{
    std::vector<size_t> shape(array.ndim());
    for (size_t i = 0; i < array.ndim(); i++)
        shape[i] = array.shape(i);
    return nb::cast(nb::ndarray<nb::array_api, Annotations...>(array.data(), array.ndim(), shape.data(),
        nb::cast(Taken{nb::ndarray<nb::ro>(array)}), array.stride_ptr(), array.dtype(), array.device_type(),
        array.device_id()));
}

NB_MODULE(dlpack_nanobind, module)
{
    nb::class_<Taken>(module, "Taken")
        .def_prop_ro("address", &Taken::address)
        .def_prop_ro("dtype", &Taken::dtype)
        .def_prop_ro("shape", &Taken::shape)
        .def_prop_ro("strides", &Taken::strides);
    def<>(module, "writable");
    def<nb::ro>(module, "ro");
    def<nb::ro, nb::c_contig>(module, "c_contig");
    def<nb::ro, nb::f_contig>(module, "f_contig");
    def<nb::ro, nb::device::cpu>(module, "cpu");
    def<nb::ro, nb::device::cuda>(module, "cuda");
    def<const float>(module, "const_float");
    def<nb::ro, nb::ndim<2>>(module, "ndim_2");
    module.def("share", &share<>);
    module.def("share_read_only", &share<nb::ro>);
    module.def("make", &make<nb::array_api>);
    module.def("make_read_only", &make<nb::array_api, nb::ro>);
    module.def("make_capsule", &make<>);
    module.def("alive", [] { return alive; });
}
