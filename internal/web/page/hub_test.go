package page

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// U5: however many pages show the same, it is asked for once, at most a twentieth of the time; and not at all while no page
// is open.
func TestHub_AsksOnceForAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHub(func(err error) { t.Error(err) })
		asked := 0
		s := source{key: "k", ask: func(context.Context) (any, int, error) {
			asked++
			time.Sleep(200 * time.Millisecond)
			return asked, 20, nil
		}}
		var leaves []func()
		var all []<-chan answer
		for range 50 {
			news, leave, err := h.watch(s)
			require.NoError(t, err)
			all, leaves = append(all, news), append(leaves, leave)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, 15, asked, "each 4.2 s")
		for _, news := range all {
			require.Equal(t, 15, (<-news).said, "the latest one")
		}
		for _, leave := range leaves {
			leave()
		}
		synctest.Wait()
		time.Sleep(time.Hour)
		require.Equal(t, 15, asked)
		require.Empty(t, h.views)
		h.close()
	})
}

// Who comes later gets what the others have, at once.
func TestHub_LaterOnes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHub(func(err error) { t.Error(err) })
		failing := errors.New("away")
		s := source{key: "k", ask: func(context.Context) (any, int, error) { return nil, 1, failing }}
		_, leave, err := h.watch(s)
		require.NoError(t, err)
		synctest.Wait()
		news, leave2, err := h.watch(s)
		require.NoError(t, err)
		require.Equal(t, failing, (<-news).err)
		leave()
		leave2()
		h.close()
		_, _, err = h.watch(s)
		require.Error(t, err, "it has ended")
	})
}

// U5: what is asked for together costs no more than one thing.
func TestHub_PausesGrowWithTheViews(t *testing.T) {
	t.Parallel()
	require.Equal(t, askEvery, pause(time.Millisecond, 1))
	require.Equal(t, 2*time.Second, pause(10*time.Millisecond, 10))
}

func TestHub_HasAnEnd(t *testing.T) {
	t.Parallel()
	h := newHub(func(err error) { t.Error(err) })
	for i := range maxViews {
		_, _, err := h.watch(source{key: string(rune(i)), ask: func(ctx context.Context) (any, int, error) { return nil, 1, nil }})
		require.NoError(t, err)
	}
	_, _, err := h.watch(source{key: "one more"})
	require.ErrorIs(t, err, errBusy)
	h.close()
}

// What does not answer has an end.
func TestHub_Deadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHub(func(err error) { t.Error(err) })
		defer h.close()
		s := source{key: "k", ask: func(ctx context.Context) (any, int, error) { <-ctx.Done(); return nil, 1, ctx.Err() }}
		_, err := h.now(t.Context(), s)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		news, leave, err := h.watch(s)
		require.NoError(t, err)
		require.ErrorIs(t, (<-news).err, context.DeadlineExceeded)
		leave()
	})
}

// What a page costs is what it has asked for: a list without jobs that run is looked at each second.
func TestHub_CountsRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for asks, want := range map[int]int{1: 50, 100: 15} {
			h := newHub(func(err error) { t.Error(err) })
			asked := 0
			_, leave, err := h.watch(source{key: "k", ask: func(context.Context) (any, int, error) {
				asked++
				time.Sleep(200 * time.Millisecond)
				return nil, asks, nil
			}})
			require.NoError(t, err)
			time.Sleep(time.Minute - 100*time.Millisecond)
			require.Equal(t, want, asked)
			leave()
			h.close()
		}
	})
}
