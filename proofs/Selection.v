(** * The smooth selection: its threshold, its shares

    Stated here, for every curve, every number [n] of scores and every real budget:
    a threshold exists ([threshold_exists]); the thresholds form a closed interval
    ([thresholds_interval]), a point for a strictly rising curve ([threshold_unique])
    and under weaker conditions ([threshold_unique_between]); the shares are the same
    for all of them ([shares_unique]).  [well_posed] says all this at once, and
    [continuity_needed] that a curve may not jump.
    The shares lie in [0, 1] and sum to the budget; they keep the order of the
    scores, follow a permutation, ignore a shift and do not fall when the budget
    grows; selecting is rejecting the rest ([shares_dual]). *)

From Coq Require Import Reals Lra Lia Arith.
From Coquelicot Require Import Coquelicot.
From TopK Require Import Sums.
Open Scope R_scope.

(** ** Setting *)

(** A curve rises continuously from 0 to 1. *)
Record curve (f : R -> R) : Prop := {
  rising     : forall s t, s <= t -> f s <= f t;
  unbroken   : forall t, continuous f t;
  low        : is_lim f m_infty 0;
  high       : is_lim f p_infty 1 }.

(** The curve rises strictly. *)
Definition strict (f : R -> R) : Prop := forall s t, s < t -> f s < f t.

(** [l] is a threshold for the scores [x_0, ..., x_{n-1}] and the budget [k]. *)
Definition threshold f n (x : nat -> R) k l := ∑_(i < n) f (x i - l) = k.

(** [p] are the shares: those of some threshold. *)
Definition shares f n (x : nat -> R) k (p : nat -> R) :=
  exists l, threshold f n x k l /\ forall i, (i < n)%nat -> p i = f (x i - l).

(** ** The curve near its ends *)

Lemma curve_low f : curve f -> forall eps, 0 < eps ->
  exists M, forall t, t < M -> f t < eps.
Proof.
  intros Hf eps He; destruct (proj2 (is_lim_spec _ _ _) (low f Hf) (mkposreal eps He)) as [M HM].
  exists M; intros t Ht; specialize (HM t Ht); simpl in HM.
  apply Rabs_def2 in HM; lra.
Qed.

Lemma curve_high f : curve f -> forall eps, 0 < eps ->
  exists M, forall t, M < t -> 1 - eps < f t.
Proof.
  intros Hf eps He; destruct (proj2 (is_lim_spec _ _ _) (high f Hf) (mkposreal eps He)) as [M HM].
  exists M; intros t Ht; specialize (HM t Ht); simpl in HM.
  apply Rabs_def2 in HM; lra.
Qed.

Lemma curve_bounds f : curve f -> forall t, 0 <= f t <= 1.
Proof.
  intros Hf t; split.
  - destruct (Rle_or_lt 0 (f t)) as [H|H]; [exact H|exfalso].
    pose proof (low f Hf) as Hl; apply is_lim_spec in Hl.
    destruct (Hl (mkposreal (- f t) ltac:(lra))) as [M HM]; simpl in HM.
    pose proof (HM (Rmin M t - 1) ltac:(pose proof (Rmin_l M t); lra)) as H1.
    pose proof (rising f Hf (Rmin M t - 1) t ltac:(pose proof (Rmin_r M t); lra)).
    apply Rabs_def2 in H1; lra.
  - destruct (Rle_or_lt (f t) 1) as [H|H]; [exact H|exfalso].
    destruct (curve_high f Hf (f t - 1) ltac:(lra)) as [_ _].
    pose proof (high f Hf) as Hl; apply is_lim_spec in Hl.
    destruct (Hl (mkposreal (f t - 1) ltac:(lra))) as [M HM]; simpl in HM.
    pose proof (HM (Rmax M t + 1) ltac:(pose proof (Rmax_l M t); lra)) as H1.
    pose proof (rising f Hf t (Rmax M t + 1) ltac:(pose proof (Rmax_r M t); lra)).
    apply Rabs_def2 in H1; lra.
Qed.

(** The curve seen from the other end. *)
Definition dual (f : R -> R) (t : R) := 1 - f (- t).

Theorem dual_curve f : curve f -> curve (dual f).
Proof.
  intros Hf; unfold dual; split.
  - intros s t H; pose proof (rising f Hf (- t) (- s) ltac:(lra)); lra.
  - intros t; apply (continuous_minus (fun _ => 1) (fun t => f (- t)));
      [apply continuous_const|].
    apply (continuous_comp Ropp f); [|apply (unbroken f Hf)].
    apply (continuous_opp (fun t : R => t)), continuous_id.
  - replace (Finite 0) with (Finite (1 - 1)) by (f_equal; ring).
    apply is_lim_minus'; [apply is_lim_const|].
    apply (is_lim_comp f Ropp m_infty 1 p_infty); [apply (high f Hf)| |].
    + apply (is_lim_opp (fun t => t) m_infty m_infty), is_lim_id.
    + exists 0; intros; discriminate.
  - replace (Finite 1) with (Finite (1 - 0)) by (f_equal; ring).
    apply is_lim_minus'; [apply is_lim_const|].
    apply (is_lim_comp f Ropp p_infty 0 m_infty); [apply (low f Hf)| |].
    + apply (is_lim_opp (fun t => t) p_infty p_infty), is_lim_id.
    + exists 0; intros; discriminate.
Qed.

(** ** The sum of the shares, as a function of the threshold *)

Lemma sum_continuous n (a : nat -> R -> R) t :
  (forall i, (i < n)%nat -> continuous (a i) t) ->
  continuous (fun s => ∑_(i < n) a i s) t.
Proof.
  induction n as [|n IH]; intros H; simpl.
  - apply continuous_const.
  - apply (continuous_plus (fun s => ∑_(i < n) a i s) (a n)); auto.
Qed.

Lemma load_continuous f n x l : curve f ->
  continuous (fun l => ∑_(i < n) f (x i - l)) l.
Proof.
  intros Hf; apply (sum_continuous n (fun i l => f (x i - l))); intros i Hi.
  apply (continuous_comp (fun l => x i - l) f).
  - apply (continuous_minus (fun _ => x i) (fun l => l));
      [apply continuous_const|apply continuous_id].
  - apply (unbroken f Hf).
Qed.

Lemma load_falls f n x l m : curve f -> l <= m ->
  ∑_(i < n) f (x i - m) <= ∑_(i < n) f (x i - l).
Proof. intros Hf H; apply sum_le; intros; apply (rising f Hf); lra. Qed.

Lemma load_falls_strictly f n x l m : strict f -> (0 < n)%nat -> l < m ->
  ∑_(i < n) f (x i - m) < ∑_(i < n) f (x i - l).
Proof. intros Hf Hn H; apply sum_lt; [exact Hn|]; intros; apply Hf; lra. Qed.

(** A number beyond all the scores. *)
Lemma bound_above n (x : nat -> R) : exists M, forall i, (i < n)%nat -> x i <= M.
Proof.
  induction n as [|n [M HM]]; [exists 0; lia|].
  exists (Rmax M (x n)); intros i Hi.
  destruct (Nat.eq_dec i n) as [->|Hn]; [apply Rmax_r|].
  apply Rle_trans with M; [apply HM; lia|apply Rmax_l].
Qed.

Lemma bound_below n (x : nat -> R) : exists M, forall i, (i < n)%nat -> M <= x i.
Proof.
  destruct (bound_above n (fun i => - x i)) as [M HM].
  exists (- M); intros i Hi; specialize (HM i Hi); lra.
Qed.

(** ** Existence and uniqueness *)

(** A low threshold gives more than [k] and a high one less; the sum is continuous,
    so the intermediate value theorem finds one in between. *)
Theorem threshold_exists f n x k : curve f -> 0 < k < INR n ->
  exists l, threshold f n x k l.
Proof.
  intros Hf [Hk Hkn].
  assert (Hn : 0 < INR n) by lra.
  assert (Hn' : (0 < n)%nat) by (apply INR_lt; exact Hn).
  destruct (curve_low f Hf (k / INR n)) as [M0 H0]; [now apply Rdiv_lt_0_compat|].
  destruct (curve_high f Hf ((INR n - k) / INR n)) as [M1 H1];
    [apply Rdiv_lt_0_compat; lra|].
  destruct (bound_above n x) as [U HU], (bound_below n x) as [L HL].
  set (g := fun l => ∑_(i < n) f (x i - l)).
  assert (Hlow : g (U - M0 + 1) < k).
  { replace k with (∑_(i < n) (k / INR n)) by (rewrite sum_const; field; lra).
    apply sum_lt; [exact Hn'|]; intros i Hi; apply H0; specialize (HU i Hi); lra. }
  assert (Hhigh : k < g (L - M1 - 1)).
  { replace k with (∑_(i < n) (1 - (INR n - k) / INR n)) by (rewrite sum_const; field; lra).
    apply sum_lt; [exact Hn'|]; intros i Hi; apply H1; specialize (HL i Hi); lra. }
  destruct (IVT_gen g (U - M0 + 1) (L - M1 - 1) k) as [l [_ Hl]].
  - intros l; apply continuity_pt_filterlim; now apply load_continuous.
  - split; apply Rlt_le.
    + now apply Rle_lt_trans with (1 := Rmin_l _ _).
    + now apply Rlt_le_trans with (2 := Rmax_r _ _).
  - now exists l.
Qed.

(** The largest threshold exists: all are below that of half the budget, and by
    continuity their least upper bound is one of them. *)
Lemma largest_threshold f n x k : curve f -> 0 < k < INR n ->
  exists b, threshold f n x k b /\ forall l, threshold f n x k l -> l <= b.
Proof.
  unfold threshold; intros Hf Hk.
  destruct (threshold_exists f n x k Hf Hk) as [l0 H0].
  destruct (threshold_exists f n x (k / 2) Hf ltac:(lra)) as [u Hu].
  unfold threshold in H0, Hu.
  destruct (completeness (fun l => ∑_(i < n) f (x i - l) = k)) as [b [Hb Hleast]].
  - exists u; intros l Hl; destruct (Rle_or_lt l u) as [H|H]; [exact H|exfalso].
    pose proof (load_falls f n x u l Hf ltac:(lra)); lra.
  - now exists l0.
  - exists b; split; [|exact Hb].
    assert (Hle : ∑_(i < n) f (x i - b) <= k)
      by (rewrite <- H0; apply load_falls; [exact Hf|apply Hb; exact H0]).
    destruct Hle as [Hlt|E]; [exfalso|exact E].
    pose proof (load_continuous f n x b Hf) as Hc.
    apply continuity_pt_filterlim in Hc.
    destruct (Hc (k - ∑_(i < n) f (x i - b)) ltac:(lra)) as [delta [Hd Hnear]].
    (* just below [b] the sum is still less than [k], so [b - delta / 2] bounds too *)
    assert (Hup : b <= b - delta / 2); [|lra].
    apply Hleast; intros l Hl; destruct (Rle_or_lt l (b - delta / 2)) as [H|H]; [exact H|].
    exfalso; pose proof (Hb l Hl) as Hlb.
    destruct (Req_dec l b) as [E|E]; [rewrite E in Hl; lra|].
    assert (Hn : Rabs (l - b) < delta) by (apply Rabs_def1; lra).
    specialize (Hnear l (conj (conj I (not_eq_sym E)) Hn)); cbv beta in Hnear.
    simpl in Hnear; unfold R_dist in Hnear; rewrite Hl in Hnear.
    apply Rabs_def2 in Hnear; lra.
Qed.

(** Seen from the other end, a threshold is a threshold. *)
Lemma threshold_dual f n x k l : threshold f n x k l <->
  threshold (dual f) n (fun i => - x i) (INR n - k) (- l).
Proof.
  unfold threshold, dual; rewrite sum_minus, sum_const.
  rewrite (sum_ext n (fun i => f (- (- x i - - l))) (fun i => f (x i - l)))
    by (intros i _; f_equal; ring); split; lra.
Qed.

(** The same from the other end. *)
Lemma smallest_threshold f n x k : curve f -> 0 < k < INR n ->
  exists a, threshold f n x k a /\ forall l, threshold f n x k l -> a <= l.
Proof.
  intros Hf Hk; assert (E := threshold_dual f n x k).
  destruct (largest_threshold (dual f) n (fun i => - x i) (INR n - k) (dual_curve f Hf)
    ltac:(lra)) as [b [Hb Hl]].
  exists (- b); split.
  - apply E; now rewrite Ropp_involutive.
  - intros l H; specialize (Hl (- l) (proj1 (E l) H)); lra.
Qed.

(** The thresholds form a closed interval. *)
Theorem thresholds_interval f n x k : curve f -> 0 < k < INR n ->
  exists a b, forall l, threshold f n x k l <-> a <= l <= b.
Proof.
  intros Hf Hk; destruct (smallest_threshold f n x k Hf Hk) as [a [Ha Hl]].
  destruct (largest_threshold f n x k Hf Hk) as [b [Hb Hu]].
  exists a, b; intros l; split; [intros H; split; auto|unfold threshold in *; intros H].
  pose proof (load_falls f n x a l Hf ltac:(lra)); pose proof (load_falls f n x l b Hf ltac:(lra)).
  lra.
Qed.

(** Of two thresholds the larger would give every score a smaller share. *)
Theorem threshold_unique f n x k l l' : strict f -> (0 < n)%nat ->
  threshold f n x k l -> threshold f n x k l' -> l = l'.
Proof.
  unfold threshold; intros Hf Hn H1 H2.
  destruct (Rtotal_order l l') as [Hl|[Hl|Hl]]; [exfalso|exact Hl|exfalso].
  - pose proof (load_falls_strictly f n x l l' Hf Hn Hl); lra.
  - pose proof (load_falls_strictly f n x l' l Hf Hn Hl); lra.
Qed.

(** The curve rises strictly wherever it is between 0 and 1. *)
Definition strict_between (f : R -> R) : Prop :=
  forall s t, s < t -> 0 < f s < 1 \/ 0 < f t < 1 -> f s < f t.

(** Two thresholds would give the same shares; one of them is neither 0 nor 1, and there
    the curve rises. *)
Theorem threshold_unique_between f n x k l l' : curve f -> strict_between f ->
  (forall t, 0 < f t) \/ (forall t, f t < 1) -> 0 < k < INR n ->
  threshold f n x k l -> threshold f n x k l' -> l = l'.
Proof.
  intros Hf Hs Hends Hk Hl Hl'.
  assert (H : forall a b, threshold f n x k a -> threshold f n x k b -> a < b -> False).
  { unfold threshold; intros a b Ha Hb Hab.
    assert (E : forall i, (i < n)%nat -> f (x i - b) = f (x i - a)).
    { apply eq_of_sum_le; [intros; apply (rising f Hf); lra|lra]. }
    assert (Hin : exists i, (i < n)%nat /\ 0 < f (x i - a) < 1).
    { destruct Hends as [He|He].
      - destruct (sum_pos_term n (fun i => 1 - f (x i - a))) as [i [Hi Hp]].
        + rewrite sum_minus, sum_const; lra.
        + exists i; split; [exact Hi|]; specialize (He (x i - a)); lra.
      - destruct (sum_pos_term n (fun i => f (x i - a))) as [i [Hi Hp]]; [lra|].
        exists i; split; [exact Hi|]; specialize (He (x i - a)); lra. }
    destruct Hin as [i [Hi Hp]]; specialize (E i Hi).
    pose proof (Hs (x i - b) (x i - a) ltac:(lra) (or_intror Hp)); lra. }
  destruct (Rtotal_order l l') as [Hlt|[E|Hlt]]; [exfalso|exact E|exfalso].
  - exact (H l l' Hl Hl' Hlt).
  - exact (H l' l Hl' Hl Hlt).
Qed.

(** Whatever the thresholds: if that of the larger budget is the higher one, all its
    shares are at most the others, and the sums force equality. *)
Theorem shares_grow f n x k k' p p' : curve f -> k <= k' ->
  shares f n x k p -> shares f n x k' p' ->
  forall i, (i < n)%nat -> p i <= p' i.
Proof.
  intros Hf Hk [l [Hl Hp]] [l' [Hl' Hp']] i Hi; rewrite Hp, Hp' by assumption.
  unfold threshold in *; destruct (Rle_or_lt l' l) as [H|H].
  - apply (rising f Hf); lra.
  - apply Req_le; symmetry.
    apply (eq_of_sum_le n (fun i => f (x i - l')) (fun i => f (x i - l))); [|lra|exact Hi].
    intros j _; apply (rising f Hf); lra.
Qed.

(** The shares do not depend on the choice of the threshold. *)
Theorem shares_unique f n x k p p' : curve f ->
  shares f n x k p -> shares f n x k p' ->
  forall i, (i < n)%nat -> p i = p' i.
Proof.
  intros Hf Hp Hp' i Hi; apply Rle_antisym.
  - exact (shares_grow f n x k k p p' Hf (Rle_refl k) Hp Hp' i Hi).
  - exact (shares_grow f n x k k p' p Hf (Rle_refl k) Hp' Hp i Hi).
Qed.

(** All thresholds give the same vector, which is a selection: it lies in [0, 1] and sums
    to the budget.  Scores may be tied. *)
Theorem well_posed f n x k : curve f -> 0 < k < INR n ->
  exists a b p, a <= b /\ (forall l, threshold f n x k l <-> a <= l <= b) /\
    (forall l, threshold f n x k l -> forall i, (i < n)%nat -> f (x i - l) = p i) /\
    (forall i, (i < n)%nat -> 0 <= p i <= 1) /\ ∑_(i < n) p i = k.
Proof.
  intros Hf Hk; destruct (threshold_exists f n x k Hf Hk) as [l Hl].
  destruct (thresholds_interval f n x k Hf Hk) as [a [b Hab]].
  exists a, b, (fun i => f (x i - l)); split; [apply Hab in Hl; lra|].
  split; [exact Hab|split; [|split; [intros; now apply curve_bounds|exact Hl]]].
  intros l' Hl' i Hi.
  apply (shares_unique f n x k (fun i => f (x i - l')) (fun i => f (x i - l)) Hf);
    [exists l'; now split|exists l; now split|exact Hi].
Qed.

(** Where every budget has a threshold for all scores, the curve takes every value between
    0 and 1, for instance at tied scores; a rising function that does so has no jump. *)
Theorem continuity_needed f n : (forall s t, s <= t -> f s <= f t) ->
  (forall t, 0 <= f t <= 1) -> (0 < n)%nat ->
  (forall x k, 0 < k < INR n -> exists l, threshold f n x k l) ->
  forall t, continuous f t.
Proof.
  intros Hup Hunit Hn Hex t.
  assert (HN : 0 < INR n) by (now apply lt_0_INR).
  assert (Honto : forall v, 0 < v < 1 -> exists u, f u = v).
  { intros v Hv; destruct (Hex (fun _ => 0) (INR n * v)) as [l Hl]; [nra|].
    unfold threshold in Hl; cbv beta in Hl; rewrite sum_const in Hl.
    exists (0 - l); apply Rmult_eq_reg_l with (INR n); lra. }
  apply continuity_pt_filterlim; intros eps He.
  assert (Hr : exists d, 0 < d /\ forall s, s < t + d -> f s < f t + eps).
  { destruct (Rlt_or_le (f t + eps / 2) 1) as [H|H].
    - destruct (Honto (f t + eps / 2)) as [u Hu]; [specialize (Hunit t); lra|].
      assert (Htu : t < u).
      { destruct (Rlt_or_le t u) as [H1|H1]; [exact H1|exfalso].
        specialize (Hup u t H1); lra. }
      exists (u - t); split; [lra|]; intros s Hs; specialize (Hup s u ltac:(lra)); lra.
    - exists 1; split; [lra|]; intros s _; specialize (Hunit s); lra. }
  assert (Hl : exists d, 0 < d /\ forall s, t - d < s -> f t - eps < f s).
  { destruct (Rlt_or_le 0 (f t - eps / 2)) as [H|H].
    - destruct (Honto (f t - eps / 2)) as [u Hu]; [specialize (Hunit t); lra|].
      assert (Htu : u < t).
      { destruct (Rlt_or_le u t) as [H1|H1]; [exact H1|exfalso].
        specialize (Hup t u H1); lra. }
      exists (t - u); split; [lra|]; intros s Hs; specialize (Hup u s ltac:(lra)); lra.
    - exists 1; split; [lra|]; intros s _; specialize (Hunit s); lra. }
  destruct Hr as [d1 [Hd1 H1]], Hl as [d2 [Hd2 H2]].
  exists (Rmin d1 d2); split; [now apply Rmin_glb_lt|].
  intros s [_ Hs]; simpl in *; unfold R_dist in *.
  pose proof (Rmin_l d1 d2); pose proof (Rmin_r d1 d2).
  apply Rabs_def2 in Hs; specialize (H1 s ltac:(lra)); specialize (H2 s ltac:(lra)).
  apply Rabs_def1; lra.
Qed.

(** ** Properties of the shares *)

(** Whatever is subtracted from the scores, and whether or not it is a threshold. *)
Theorem entries_in_unit f n x l : (forall t, 0 <= f t <= 1) ->
  forall i, (i < n)%nat -> 0 <= f (x i - l) <= 1.
Proof. intros Hf i _; apply Hf. Qed.

Theorem shares_in_unit f n x k p : curve f -> shares f n x k p ->
  forall i, (i < n)%nat -> 0 <= p i <= 1.
Proof. intros Hf [l [_ Hp]] i Hi; rewrite Hp by exact Hi; now apply curve_bounds. Qed.

Theorem shares_sum f n x k p : shares f n x k p -> ∑_(i < n) p i = k.
Proof. intros [l [Hl Hp]]; rewrite <- Hl; now apply sum_ext. Qed.

Theorem shares_order f n x k p : curve f -> shares f n x k p ->
  forall i j, (i < n)%nat -> (j < n)%nat -> x i <= x j -> p i <= p j.
Proof. intros Hf [l [_ Hp]] i j Hi Hj H; rewrite !Hp by assumption; apply (rising f Hf); lra. Qed.

(** A strictly rising curve keeps the order strictly. *)
Theorem shares_order_strict f n x k p : strict f -> shares f n x k p ->
  forall i j, (i < n)%nat -> (j < n)%nat -> (p i < p j <-> x i < x j).
Proof.
  intros Hf [l [_ Hp]] i j Hi Hj; rewrite !Hp by assumption; split; intros H.
  - destruct (Rlt_or_le (x i) (x j)) as [H1|[H1|H1]]; [exact H1| |]; exfalso.
    + pose proof (Hf (x j - l) (x i - l) ltac:(lra)); lra.
    + rewrite H1 in H; lra.
  - apply Hf; lra.
Qed.

Theorem shares_shift f n x k p c : shares f n x k p ->
  shares f n (fun i => x i + c) k p.
Proof.
  assert (E : forall i l, x i + c - (l + c) = x i - l) by (intros; ring).
  intros [l [Hl Hp]]; exists (l + c); split.
  - rewrite <- Hl; apply sum_ext; intros; now rewrite E.
  - intros i Hi; now rewrite E, Hp.
Qed.

Theorem shares_permute f n x k p s : permutation n s -> shares f n x k p ->
  shares f n (fun i => x (s i)) k (fun i => p (s i)).
Proof.
  intros Hs [l [Hl Hp]]; exists l; split.
  - rewrite <- Hl; exact (sum_perm n s (fun i => f (x i - l)) Hs).
  - intros i Hi; apply Hp; now apply (proj1 Hs).
Qed.

(** The budget [k'] in place of [k] adds [k' - k] in all: no share falls. *)
Theorem shares_budget f n x k k' p p' : curve f -> k <= k' ->
  shares f n x k p -> shares f n x k' p' ->
  ∑_(i < n) Rabs (p' i - p i) = k' - k.
Proof.
  intros Hf Hk Hp Hp'.
  rewrite <- (shares_sum f n x k p Hp), <- (shares_sum f n x k' p' Hp'), <- sum_minus.
  apply sum_ext; intros i Hi; apply Rabs_pos_eq.
  pose proof (shares_grow f n x k k' p p' Hf Hk Hp Hp' i Hi); lra.
Qed.

(** ** Duality *)

(** To select [k] is to reject [n - k] of the negated scores. *)
Theorem shares_dual f n x k :
  (forall l, threshold f n x k l <-> threshold (dual f) n (fun i => - x i) (INR n - k) (- l)) /\
  (forall p, shares f n x k p <->
    shares (dual f) n (fun i => - x i) (INR n - k) (fun i => 1 - p i)).
Proof.
  assert (E : forall i l, - (- x i - - l) = x i - l) by (intros; ring).
  assert (H := threshold_dual f n x k).
  split; [exact H|]; intros p; split; intros [l [Hl Hp]]; exists (- l); split.
  - now apply H.
  - intros i Hi; unfold dual; now rewrite E, Hp.
  - apply H; now rewrite Ropp_involutive.
  - intros i Hi; specialize (Hp i Hi); unfold dual in Hp.
    replace (x i - - l) with (- (- x i - l)) by ring; lra.
Qed.
