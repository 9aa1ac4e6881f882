// What breaks the promise of power-of-two scales: the operation, the tensor, its scale and the nearest that would do.

// RUN: qmlir-opt --split-input-file --verify-diagnostics %s

!a = !quant.uniform<i8:f32, 0.25>

func.func @activation(%x: tensor<2x!a>) attributes {qmlir.scales = #qmlir.power_of_two} {
  // expected-error@+1 {{nn.relu "relu1": qmlir.scales promises scales that are powers of two, got tensor "y" with scale 0.1; the nearest is 2^-3 = 0.125}}
  %0 = nn.relu %x {qmlir.name = #qmlir.name<nodes ["relu1"], tensors ["y"]>} : tensor<2x!a> -> tensor<2x!quant.uniform<i8:f32, 0.1>>
  func.return
}

// -----

func.func @weights() attributes {qmlir.scales = #qmlir.power_of_two} {
  // expected-error@+1 {{nn.constant: qmlir.scales promises scales that are powers of two, got tensor "w" with scale 3.0 at index 1; the nearest is 2^2 = 4.0}}
  %0 = nn.constant <tensor<2xi8>, [1, 2]> {qmlir.name = #qmlir.name<tensors ["w"]>} : tensor<2x!quant.uniform<i8:f32:0, {0.5,3.0}>>
  func.return
}

// -----

// One unit in the last place is enough.
// expected-error@+1 {{func.func: qmlir.scales promises scales that are powers of two, got tensor "x" with scale 0.2500000298023224; the nearest is 2^-2 = 0.25}}
func.func @argument(%x: tensor<2x!quant.uniform<i8:f32, 0.2500000298023224>> {qmlir.name = #qmlir.name<tensors ["x"]>}) attributes {qmlir.scales = #qmlir.power_of_two} {
  func.return
}

// -----

// expected-error@+1 {{got a value with scale 0.75 at index 1; the nearest is 2^0 = 1.0}}
func.func @blocks(%x: tensor<4x2x!quant.uniform<i8:f32:{0:2}, {{0.25},{0.75}}>>) attributes {qmlir.scales = #qmlir.power_of_two} {
  func.return
}

// -----

builtin.module attributes {qmlir.scales = #qmlir.power_of_two} {
  // expected-error@+1 {{func.func: qmlir.scales promises scales that are powers of two, got a value with scale 0.3; the nearest is 2^-2 = 0.25}}
  func.func @inside(%x: tensor<2x!quant.uniform<i8:f32, 0.3>>) {
    func.return
  }
}

// -----

// expected-error@+1 {{qmlir.scales must be #qmlir.power_of_two, got "odd"}}
func.func @unknown() attributes {qmlir.scales = "odd"} {
  func.return
}
