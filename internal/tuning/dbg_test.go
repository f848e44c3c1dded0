package tuning
import ("testing";"math/rand/v2";"fmt")
func TestDbg(t *testing.T){
 for seed:=uint64(1);seed<2;seed++{
	r := rand.New(rand.NewPCG(seed, 1))
	s := &simulation{slots: 4, service: waits{takes: exponential(r, 0.05)}, until: 1000}
	s.tuner = New(4, s.clock)
	took:=s.run(20000)
	fmt.Println(seed, took, s.limits)
 }
}
