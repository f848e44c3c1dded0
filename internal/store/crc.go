package store

import "hash/crc32"

// castagnoli is the polynomial of every checksum here: processors have an instruction for it.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// crcPowers holds x^(2^n) modulo the polynomial, for every n that a length in bits can have.
var crcPowers = func() (powers [66]uint32) {
	powers[0] = 1 << 30 // x: bit 31 stands for x^0
	for n := 1; n < len(powers); n++ {
		powers[n] = crcMultiply(powers[n-1], powers[n-1])
	}
	return powers
}()

// combine returns the checksum of two pieces of data, one after the other, from the checksum of
// each and the length of the second in bytes. It is the method of zlib's crc32_combine: the first
// checksum times x^(8·length), plus the second.
func combine(first, second uint32, length int64) uint32 {
	shift := uint32(1) << 31 // x^0
	for n := 3; length > 0; n++ {
		if length&1 != 0 {
			shift = crcMultiply(crcPowers[n], shift)
		}
		length >>= 1
	}
	return crcMultiply(shift, first) ^ second
}

// crcMultiply multiplies two polynomials modulo that of the checksum.
func crcMultiply(a, b uint32) uint32 {
	var product uint32
	for bit := uint32(1) << 31; bit != 0; bit >>= 1 {
		if a&bit != 0 {
			product ^= b
		}
		if b&1 != 0 {
			b = b>>1 ^ crc32.Castagnoli
		} else {
			b >>= 1
		}
	}
	return product
}
