//go:build !nextlogic

package wire

// LogicVersion is the version of the workflows' logic that a job started now follows to its end.
const LogicVersion = 1

// logics are those that this program knows: of the present release and of the two minor versions before it.
var logics = [...]int{LogicVersion}
