(** * The hard limit, ties included

    As the temperature falls, the shares tend to 1 above the score at place [k], to 0
    below it, and to [(k - a) / b] on the [b] scores that equal it, where [a] scores
    are larger ([hard_limit]).  The budget is any real number, the curve any curve. *)

From Coq Require Import Reals Lra Lia Arith.
From Coquelicot Require Import Coquelicot.
From TopK Require Import Sums Selection.
Open Scope R_scope.

(** How many scores exceed [v], and how many equal it. *)
Definition larger n (x : nat -> R) v := ∑_(i < n) (if Rlt_dec v (x i) then 1 else 0).
Definition tied n (x : nat -> R) v := ∑_(i < n) (if Req_EM_T (x i) v then 1 else 0).

(** [v] is the score at place [k], rounded up: fewer than [k] scores exceed it, and at
    least [k] reach it. *)
Definition at_place n x k v := larger n x v < k <= larger n x v + tied n x v.

(** The limit of the shares. *)
Definition hard n x k v i :=
  if Rlt_dec v (x i) then 1
  else if Req_EM_T (x i) v then (k - larger n x v) / tied n x v else 0.

(** The scores different from [v] keep a distance from it. *)
Lemma gap_exists n (x : nat -> R) v : exists g, 0 < g /\
  forall i, (i < n)%nat -> x i <> v -> g <= Rabs (x i - v).
Proof.
  induction n as [|n [g [Hg H]]]; [exists 1; split; [lra|lia]|].
  destruct (Req_EM_T (x n) v) as [E|E].
  - exists g; split; [exact Hg|]; intros i Hi Hn.
    destruct (Nat.eq_dec i n) as [->|D]; [contradiction|apply H; [lia|exact Hn]].
  - exists (Rmin g (Rabs (x n - v))); split.
    + apply Rmin_glb_lt; [exact Hg|apply Rabs_pos_lt; lra].
    + intros i Hi Hn; destruct (Nat.eq_dec i n) as [->|D]; [apply Rmin_r|].
      eapply Rle_trans; [apply Rmin_l|apply H; [lia|exact Hn]].
Qed.

(** Once the gap is large, the argument [u] of the tied scores cannot be far below
    zero, or the sum would fall short of [k], nor far above, or there would be nothing
    left for the scores below; in between, both neighbours are at the curve's ends. *)
Theorem hard_limit f n x k v : curve f -> at_place n x k v ->
  forall eps, 0 < eps -> exists T, 0 < T /\
    forall tau p, 0 < tau < T -> shares f n (fun i => x i / tau) k p ->
    forall i, (i < n)%nat -> Rabs (p i - hard n x k v i) < eps.
Proof.
  intros Hf [Ha Hb] eps He.
  set (a := larger n x v) in *; set (b := tied n x v) in *.
  set (N := INR n + 1); assert (HN : 1 <= N) by (unfold N; pose proof (pos_INR n); lra).
  assert (Ha0 : 0 <= a)
    by (apply sum_nonneg; intros i _; destruct (Rlt_dec v (x i)); lra).
  assert (Hb1 : 1 <= b).
  { destruct (sum_pos_term n (fun i => if Req_EM_T (x i) v then 1 else 0)) as [j [Hj Hp]];
      [fold (tied n x v); fold b; lra|].
    replace 1 with (if Req_EM_T (x j) v then 1 else 0) at 1
      by (destruct (Req_EM_T (x j) v); [reflexivity|lra]).
    apply (term_le_sum n (fun i => if Req_EM_T (x i) v then 1 else 0)); [|exact Hj].
    intros i _; destruct (Req_EM_T (x i) v); lra. }
  (* e: a share this near to its end adds up, over all scores, to less than eps *)
  set (e := Rmin (eps / (4 * N * N)) ((k - a) / (2 * N))).
  assert (HNN : 0 < N * N) by nra.
  assert (He1 : 0 < e) by (apply Rmin_glb_lt; apply Rdiv_lt_0_compat; nra).
  assert (He2 : 4 * N * N * e <= eps).
  { pose proof (Rmin_l (eps / (4 * N * N)) ((k - a) / (2 * N))) as H; fold e in H.
    apply Rle_div_r in H; [lra|nra]. }
  assert (He3 : 2 * N * e <= k - a).
  { pose proof (Rmin_r (eps / (4 * N * N)) ((k - a) / (2 * N))) as H; fold e in H.
    apply Rle_div_r in H; [lra|nra]. }
  clearbody e.
  destruct (curve_low f Hf e He1) as [M0 H0], (curve_high f Hf e He1) as [M1 H1].
  set (M := Rmax 1 (Rmax (1 - M0) (M1 + 1))).
  assert (HM : 1 <= M /\ - M0 < M /\ M1 < M).
  { assert (H : 1 <= M) by apply Rmax_l.
    assert (H' : Rmax (1 - M0) (M1 + 1) <= M) by apply Rmax_r.
    pose proof (Rmax_l (1 - M0) (M1 + 1)); pose proof (Rmax_r (1 - M0) (M1 + 1)); lra. }
  clearbody M.
  destruct (gap_exists n x v) as [g [Hg Hgap]].
  exists (g / (2 * M)); split; [apply Rdiv_lt_0_compat; lra|].
  intros tau p [Htau HT] Hp.
  assert (Hunit := shares_in_unit f n _ k p Hf Hp).
  assert (Hsum := shares_sum f n _ k p Hp).
  destruct Hp as [l [_ Hp]]; set (u := v / tau - l).
  assert (Hwide : 2 * M < g / tau).
  { apply (Rlt_div_r tau g (2 * M)) in HT; [|lra].
    apply (Rlt_div_r (2 * M) g tau); [exact Htau|lra]. }
  assert (Harg : forall i, x i / tau - l = u + (x i - v) / tau)
    by (intros; unfold u; field; lra).
  assert (Hscale : forall s, g <= s -> 2 * M < s / tau).
  { intros s Hs; apply Rlt_le_trans with (1 := Hwide).
    apply Rmult_le_compat_r; [now apply Rlt_le, Rinv_0_lt_compat|exact Hs]. }
  assert (Habove : forall i, (i < n)%nat -> v < x i -> u + 2 * M < x i / tau - l).
  { intros i Hi H; rewrite Harg; specialize (Hgap i Hi ltac:(lra)).
    rewrite Rabs_pos_eq in Hgap by lra; specialize (Hscale _ Hgap); lra. }
  assert (Hbelow : forall i, (i < n)%nat -> x i < v -> x i / tau - l < u - 2 * M).
  { intros i Hi H; rewrite Harg; specialize (Hgap i Hi ltac:(lra)).
    rewrite Rabs_left in Hgap by lra; specialize (Hscale _ Hgap).
    replace ((x i - v) / tau) with (- (- (x i - v) / tau)) by (field; lra); lra. }
  assert (Htie : forall i, (i < n)%nat -> x i = v -> p i = f u).
  { intros i Hi E; rewrite Hp by exact Hi; f_equal; rewrite Harg, E; field; lra. }
  (* the three parts of the sum *)
  set (A := ∑_(i < n) (if Rlt_dec v (x i) then p i else 0)).
  set (B := ∑_(i < n) (if Rlt_dec v (x i) then 0 else if Req_EM_T (x i) v then 0 else p i)).
  assert (Hparts : A + b * f u + B = k).
  { rewrite <- Hsum; unfold A, B, b, tied; rewrite Rmult_comm, <- sum_scal, <- !sum_plus.
    apply sum_ext; intros i Hi; destruct (Rlt_dec v (x i)), (Req_EM_T (x i) v);
      [lra|ring|rewrite Htie by assumption; ring|ring]. }
  assert (HA : 0 <= A <= a).
  { split; [apply sum_nonneg|apply sum_le]; intros i Hi; specialize (Hunit i Hi);
      destruct (Rlt_dec v (x i)); lra. }
  assert (HB : 0 <= B).
  { apply sum_nonneg; intros i Hi; specialize (Hunit i Hi);
      destruct (Rlt_dec v (x i)), (Req_EM_T (x i) v); lra. }
  assert (Hfu := curve_bounds f Hf u).
  assert (HNe : INR n * e <= N * e) by (apply Rmult_le_compat_r; unfold N; lra).
  (* the threshold is not far above the ties ... *)
  assert (Hu1 : - M < u).
  { destruct (Rlt_or_le (- M) u) as [H|H]; [exact H|exfalso].
    assert (b * f u + B <= INR n * e); [|lra].
    unfold b, tied, B; rewrite Rmult_comm, <- sum_scal, <- sum_plus, <- sum_const.
    apply sum_le; intros i Hi; destruct (Rlt_dec v (x i)), (Req_EM_T (x i) v); try lra.
    - assert (f u < e) by (apply H0; lra); lra.
    - rewrite Hp by exact Hi; specialize (Hbelow i Hi ltac:(lra)).
      assert (f (x i / tau - l) < e) by (apply H0; lra); lra. }
  assert (HAe : a - N * e <= A).
  { assert (a - A <= INR n * e); [|lra].
    unfold a, larger, A; rewrite <- sum_minus, <- sum_const; apply sum_le; intros i Hi.
    destruct (Rlt_dec v (x i)); [|lra]; rewrite Hp by exact Hi.
    specialize (Habove i Hi r); pose proof (H1 (x i / tau - l) ltac:(lra)); lra. }
  assert (HBe : B <= N * e).
  { destruct (Rlt_or_le u M) as [H|H].
    - apply Rle_trans with (INR n * e); [|exact HNe].
      rewrite <- sum_const; apply sum_le; intros i Hi.
      destruct (Rlt_dec v (x i)), (Req_EM_T (x i) v); try lra.
      rewrite Hp by exact Hi; specialize (Hbelow i Hi ltac:(lra)).
      apply Rlt_le, H0; lra.
    - (* ... and if it is far below them, they take all that is left *)
      assert (HAB : a + b - (A + b * f u) <= INR n * e); [|lra].
      unfold a, b, larger, tied, A.
      rewrite (Rmult_comm _ (f u)), <- sum_scal, <- !sum_plus, <- sum_minus, <- sum_const.
      apply sum_le; intros i Hi; destruct (Rlt_dec v (x i)), (Req_EM_T (x i) v); try lra.
      + rewrite Hp by exact Hi.
        specialize (Habove i Hi r); pose proof (H1 (x i / tau - l) ltac:(lra)); lra.
      + pose proof (H1 u ltac:(lra)); lra. }
  (* what is left for the ties *)
  assert (Ht : Rabs (f u - (k - a) / b) <= 2 * N * e).
  { replace (f u - (k - a) / b) with ((a - A - B) / b)
      by (rewrite <- Hparts; field; lra).
    unfold Rdiv; rewrite Rabs_mult, Rabs_inv, (Rabs_pos_eq b) by lra.
    apply Rle_div_l; [lra|]; apply Rle_trans with (2 * N * e).
    - apply Rabs_le_between; lra.
    - rewrite <- (Rmult_1_r (2 * N * e)) at 1; apply Rmult_le_compat_l; [nra|exact Hb1]. }
  assert (Hfin : 2 * N * e < eps) by nra.
  intros i Hi; unfold hard; fold a b; pose proof Hunit as Hun; specialize (Hunit i Hi).
  destruct (Rlt_dec v (x i)) as [H|H].
  - assert (1 - p i <= a - A); [|apply Rabs_def1; nra].
    replace (1 - p i) with ((fun i => (if Rlt_dec v (x i) then 1 else 0)
      - (if Rlt_dec v (x i) then p i else 0)) i)
      by (cbv beta; destruct (Rlt_dec v (x i)); lra).
    unfold a, larger, A; rewrite <- sum_minus.
    apply (term_le_sum n (fun i => (if Rlt_dec v (x i) then 1 else 0)
      - (if Rlt_dec v (x i) then p i else 0))); [|exact Hi].
    intros j Hj; specialize (Hun j Hj); destruct (Rlt_dec v (x j)); lra.
  - destruct (Req_EM_T (x i) v) as [E|E]; [rewrite Htie by assumption; lra|].
    assert (p i <= B); [|apply Rabs_def1; nra].
    replace (p i) with ((fun i => if Rlt_dec v (x i) then 0
      else if Req_EM_T (x i) v then 0 else p i) i)
      by (cbv beta; destruct (Rlt_dec v (x i)), (Req_EM_T (x i) v); lra).
    apply (term_le_sum n (fun i => if Rlt_dec v (x i) then 0
      else if Req_EM_T (x i) v then 0 else p i)); [|exact Hi].
    intros j Hj; specialize (Hun j Hj);
      destruct (Rlt_dec v (x j)), (Req_EM_T (x j) v); lra.
Qed.
