//go:build nofastjson

package codec

// fastest returns the codec for types for which the two agree.
func fastest(bool) Codec { return Standard }
