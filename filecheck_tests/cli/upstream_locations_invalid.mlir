// Aliases of locations that lead nowhere.

// RUN: qmlir-opt --split-input-file --verify-diagnostics %s

// expected-error@+1 {{the location #nowhere is not defined}}
func.func private @f() loc(#nowhere)

// -----

func.func private @f() loc(#a)
#a = loc(fused[#b])
// expected-error@+1 {{the location #a is not defined}}
#b = loc("x"(#a))

// -----

// expected-error@+1 {{#map is not a location}}
func.func private @f() loc(#map)
#map = affine_map<(d0) -> (d0)>

// -----

func.func private @f() loc(#a)
#a = loc(unknown)
// expected-error@+1 {{re-declaration of alias '#a'}}
#a = loc(unknown)
